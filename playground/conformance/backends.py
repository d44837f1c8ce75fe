"""What a parallel backend promises: float64 against one device, whatever the replicas, the shards and the optimizer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from playground.conformance.checks import Checks, ConformanceError, NotApplicableError, Subject, require
from playground.conformance.inexact import CHECKS as INEXACT
from playground.conformance.partners import left_out, partners, sound_backends, tried
from playground.conformance.problems import (
    BATCH,
    ROWS,
    STEPS,
    TOLERANCE,
    Trained,
    classes,
    curve,
    dropping,
    equals,
    experiment,
    feed,
    furthest,
    matrix,
    measure,
    normalising,
    reference,
    train,
)
from playground.conformance.replicas import COUNTS, MANY, backends, even, exact, listed, same
from playground.engine.assembly import assembled, planned
from playground.engine.objective import Objective
from playground.engine.training import Training
from playground.errors import ComponentError, RequestError, brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playground.engine.batches import Shard
    from playground.experiment import Choice

CHECKS = Checks()

SINGLE = 1e-5
"""How far float32 may be apart after some steps with numbers near 1: it rounds to 1e-7. A gradient that counts twice is
off by 1e-2."""

SIZES = {"that divide": (18, 6), "that do not divide": (ROWS, BATCH), "smaller than the replicas": (5, 2)}
"""Rows and batch sizes."""


@CHECKS.add_decisive
def is_a_backend(subject: Subject) -> str:
    """It is built, plans for the devices that are asked for, is a playground.ParallelBackend, and takes a step."""
    try:
        planned(experiment(backend=subject.choice))
    except RequestError as error:
        # That there are no such devices here, where nobody asked for them, is no fault; whatever a factory raises is.
        if "devices" in subject.choice.asked or isinstance(error, ComponentError):
            raise
    taken = []
    for count, backend in backends(subject, *COUNTS):
        # Putting the parts together refuses what is no ParallelBackend.
        with assembled(experiment(backend=backend)) as parts:
            for shards, rows in feed(parts, 0, 1):
                parts.backend.step(shards, rows, parts.objective)
        taken.append(count)
    return f"{type(parts.backend).__name__}, on {listed(taken)}"


@CHECKS.add
def equals_one_device(subject: Subject) -> str:
    """On 1, 2, 3 and 5 replicas, with batches that divide, that do not, and that are smaller than the replicas, five
    steps give the parameters and losses of one device; in float32 too, as far as that is exact. A backend that is not
    meant to do so has a component that says exact=False."""
    exact(subject)
    taken = []
    for count, backend in backends(subject, *COUNTS, MANY):
        for what, (rows, size) in SIZES.items():
            words: dict[str, Any] = {"rows": rows, "batch_size": size}
            found = train(experiment(backend=backend, **words))
            same(found, train(experiment(backend=reference(), **words)), f"{count} replicas, batches of {size} {what}")
        single = train(experiment(backend=backend, dtype="float32"))
        far, name = furthest(single.model, train(experiment(backend=reference(), dtype="float32")).model)
        require(far <= SINGLE, f"{count} replicas, in float32: {name} differs by {far:.3g} after {STEPS} steps")
        taken.append(count)
    return f"on {listed(taken)}, to {TOLERANCE:g}"


@CHECKS.add
def equals_one_device_with_every_optimizer(subject: Subject) -> str:
    """On as many replicas as it takes, every optimizer that is installed gives one device's numbers."""
    exact(subject)
    equal, odd = [], []
    for count, backend in list(backends(subject, *COUNTS))[-1:]:
        for optimizer in partners(subject.registry, "optimizer"):
            # What evaluates again within a step magnifies rounding, the more the less convex the problem is.
            closure = optimizer.registration.has("closure")
            words: dict[str, Any] = {"optimizer": optimizer, "model": matrix}
            words |= {"batch_size": ROWS, "steps": 1} if closure else {}
            expected, shared = (tried(experiment(backend=reference(n), **words)) for n in (1, count))
            if isinstance(expected, BaseException) or isinstance(shared, BaseException) or not equals(shared, expected):
                # It takes no matrix, is broken by itself, or is not the same twice: its own report's business.
                odd.append(optimizer.name)
                continue
            found = tried(experiment(backend=backend, **words))
            if isinstance(found, BaseException):
                raise ConformanceError(f"{optimizer.name} on {count} replicas: {brief(found)}") from found
            same(found, expected, f"{optimizer.name} on {count} replicas")
            equal.append(optimizer.name)
    if not equal:
        raise NotApplicableError(f"there is no optimizer to try it with{left_out(odd)}")
    return ", ".join(equal) + left_out(odd)


@CHECKS.add
def is_bit_equal_from_run_to_run(subject: Subject) -> None:
    """The same steps give the same bits again."""
    for count, backend in backends(subject, *COUNTS):
        one, other = (train(experiment(backend=backend)) for _ in range(2))
        far, name = furthest(one.model, other.model)
        require(far == 0, f"on {count} replicas {name} differs by {far:.3g} from run to run")
        require(one.losses == other.losses, f"on {count} replicas the losses differ from run to run")


@CHECKS.add
def replicas_are_equal_after_each_step(subject: Subject) -> str:
    """After each step the fingerprints of all replicas are one, and another one than before the step."""
    exact(subject)
    for count, backend in backends(subject, *COUNTS):
        before: list[str] = []
        for step, prints in enumerate(train(experiment(backend=backend)).prints, start=1):
            require(bool(prints), "it gives no fingerprints")
            said = f"after step {step} on {count} replicas the fingerprints are {', '.join(prints)}"
            require(len(set(prints)) == 1, said)
            require(prints != before, f"{said}, as before it")
            before = prints
    return f"{len(prints)} fingerprints on {count} replicas"


@CHECKS.add
def its_learning_rate_can_be_scaled(subject: Subject) -> None:
    """`lr` is the optimizer's, and after `scale_lr(0.5)` it is half of what it was at first: the steps of an exact
    backend are then one device's with half the rate."""

    def scaled(backend: Choice, factor: float) -> tuple[float | None, dict[str, Tensor]]:
        with assembled(experiment(backend=backend)) as parts:
            for shards, rows in feed(parts, 0, 3):
                # Of the initial rate each time, so that twice is as once.
                parts.backend.scale_lr(factor)
                parts.backend.step(shards, rows, parts.objective)
            return parts.backend.lr, parts.backend.state_dict()["model"]

    for count, backend in backends(subject, *COUNTS):
        for factor in (1.0, 0.5):
            lr, model = scaled(backend, factor)
            expected, its = scaled(reference(), factor)
            said = f"on {count} replicas, at {factor:g} times the initial rate"
            require(lr == expected, f"{said}, lr is {lr}, not {expected}")
            if subject.choice.registration.has("exact"):
                far, name = furthest(model, its)
                require(far <= TOLERANCE, f"{said}, {name} differs by {far:.3g} after 3 steps")


@CHECKS.add
def its_loss_curve_is_that_of_one_device(subject: Subject) -> None:
    """The losses that a run records, evaluations in between, are those of one device."""
    exact(subject)

    def recorded(backend: Choice) -> list[float]:
        asked = experiment(backend=backend, steps=8)
        with assembled(asked) as parts:
            return [float(record["train_loss"] or 0.0) for record in Training(parts, asked).records()]

    expected = recorded(reference())
    for count, backend in backends(subject, *COUNTS):
        found = recorded(backend)
        far = max(abs(one - other) for one, other in zip(found, expected, strict=True))
        require(far <= TOLERANCE, f"on {count} replicas the curve is {curve(found)}, not {curve(expected)}")


@CHECKS.add
def its_state_has_the_model_s_names(subject: Subject) -> None:
    """The state is whole, on the CPU, and under the names that the model itself has (no `module.`)."""
    for count, backend in backends(subject, *COUNTS):
        state = train(experiment(backend=backend, model=normalising, **even(count))).state
        wanted = normalising((3,), 2).state_dict()
        names = ", ".join(map(str, state["model"]))
        require(list(state["model"]) == list(wanted), f"on {count} replicas its state has {names}")
        for name, value in state["model"].items():
            shape = tuple(value.shape)
            require(shape == tuple(wanted[name].shape), f"on {count} replicas {name} has the shape {shape}")
            require(value.device.type == "cpu", f"on {count} replicas {name} is on {value.device}")


@CHECKS.add
def goes_on_from_any_backend_s_state(subject: Subject) -> str:
    """Three steps on one backend and two on another are five on one device: from its own state, from that of every
    exact backend, and theirs from its own."""
    exact(subject)
    expected = train(experiment(backend=reference()))
    others, unfit = sound_backends(subject.registry, 2, 1)
    others = {name: backend for name, backend in others.items() if backend.name != subject.choice.name}
    others = {"one device": reference(), "the kit's two replicas": reference(2), **others}
    for count, backend in backends(subject, *COUNTS):
        _go_on(backend, backend, expected, f"on {count} replicas, from its own state")
        for name, partner in others.items():
            _go_on(partner, backend, expected, f"on {count} replicas, from the state of {name}")
            _go_on(backend, partner, expected, f"{name}, from its state on {count} replicas")
    return ", ".join(others) + left_out([name for name in unfit if name != subject.choice.name])


def _go_on(first: Choice, second: Choice, expected: Trained, what: str) -> None:
    state = train(experiment(backend=first, steps=3)).state
    try:
        found = train(experiment(backend=second), 3, state)
    except Exception as error:
        raise ConformanceError(f"{what}: {brief(error)}") from error
    far, name = furthest(found.model, expected.model)
    require(far <= TOLERANCE, f"{what}: {name} differs by {far:.3g} from what five steps on one device give")


@CHECKS.add
def micro_batches_add_up_to_a_batch(subject: Subject) -> None:
    """A shard that comes in two pieces gives the step that it gives whole."""
    exact(subject)
    expected = train(experiment(backend=reference()))
    for count, backend in backends(subject, *COUNTS):
        asked = experiment(backend=backend)
        with assembled(asked) as parts:
            for shards, rows in feed(parts, 0, asked.steps or 0):
                parts.backend.step([_halves(shard) for shard in shards], rows, parts.objective)
            far, name = furthest(parts.backend.state_dict()["model"], expected.model)
        require(far <= TOLERANCE, f"on {count} replicas {name} differs by {far:.3g} where shards come in two pieces")


def _halves(shard: Shard) -> Shard:
    return [
        piece
        for inputs, targets in shard
        for piece in zip(inputs.tensor_split(2), targets.tensor_split(2), strict=True)
    ]


@CHECKS.add
def dropout_and_batch_statistics_are_those_of_replicas(subject: Subject) -> str:
    """With dropout and with batch normalisation the numbers are those of as many replicas that add up their gradients,
    or those of one device."""
    exact(subject)
    like = set()
    for count, backend in backends(subject, *COUNTS):
        for what, model in (("dropout", dropping), ("batch normalisation", normalising)):
            words = {"model": model, **even(count)}
            found = train(experiment(backend=backend, **words))
            fars = {}
            for name, other in (("replicas", reference(count)), ("one device", reference())):
                fars[name] = furthest(found.model, train(experiment(backend=other, **words)).model)
            near = min(fars, key=lambda name: fars[name])
            far, where = fars[near]
            require(far <= TOLERANCE, f"with {what} on {count} replicas {where} differs by {far:.3g} from {near}")
            like.add(near)
    return f"those of {' or '.join(sorted(like, reverse=True))}"


@CHECKS.add
def an_evaluation_sees_each_row_once(subject: Subject) -> None:
    """The sums of an evaluation, of the loss and of each metric, count every row once, 22 rows on 3 replicas as 22."""
    for count, backend in backends(subject, *COUNTS):
        with assembled(experiment(backend=backend, data=classes)) as parts:
            counted = Counting(parts.objective)
            sums: dict[str, float] = {}
            for shards in parts.feeds["train"](map(parts.backend.shard, torch.split(torch.arange(ROWS), BATCH))):
                for name, value in parts.backend.evaluate(shards, counted).items():
                    sums[name] = sums.get(name, 0.0) + float(value)
        require("loss" in sums, "its evaluation gives no 'loss'")
        require(sums.get("rows") == ROWS, f"on {count} replicas {ROWS} rows are counted as {sums.get('rows', 0.0):g}")
        with assembled(experiment(backend=reference(), data=classes)) as parts:
            expected = measure(parts)
        for name, value in expected.items():
            far = abs(sums.get(name, 0.0) - value)
            said = f"the sum of '{name}' is {sums.get(name, 0.0):.12g}, not {value:.12g}"
            require(far <= TOLERANCE * ROWS, f"on {count} replicas {said}")


class Counting(Objective):
    """An objective that counts the rows that it is asked about."""

    def __init__(self, real: Objective) -> None:
        self._real = real

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._real.loss(outputs, targets)

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {**self._real.metrics(outputs, targets), "rows": torch.tensor(len(outputs), device=outputs.device)}


@CHECKS.add
def an_evaluation_changes_nothing(subject: Subject) -> None:
    """Evaluations between the steps change no parameter, no buffer, no mode and no random number."""

    def trained(backend: Choice, count: int, evaluate: bool) -> dict[str, Tensor]:
        asked = experiment(backend=backend, model=everything, **even(count))
        with assembled(asked) as parts:
            for shards, rows in feed(parts, 0, asked.steps or 0):
                if evaluate:
                    measure(parts)
                parts.backend.step(shards, rows, parts.objective)
            state: dict[str, Tensor] = parts.backend.state_dict()["model"]
            return state

    for count, backend in backends(subject, *COUNTS):
        far, name = furthest(trained(backend, count, True), trained(backend, count, False))
        require(far == 0, f"on {count} replicas evaluations change {name} by {far:.3g}")


def everything(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, outputs))


FRAGILE = "the third pass fails"


class Fragile(nn.Module):
    """A linear layer that fails when it is trained on for the third time."""

    passes: Tensor

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs[0], outputs)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.passes += 1
            if self.passes >= 3:
                raise ArithmeticError(FRAGILE)
        return self.output(inputs)  # type: ignore[no-any-return]


@CHECKS.add
def a_failure_inside_a_step_surfaces(subject: Subject) -> None:
    """What a replica raises ends the step with an error that says it, and no thread is left once it is closed."""
    for count, backend in backends(subject, *COUNTS):
        before = set(threading.enumerate())
        try:
            train(experiment(backend=backend, model=Fragile))
        except Exception as error:
            said = any(FRAGILE in str(cause) for cause in _causes(error))
            require(said, f"on {count} replicas the cause is lost: {brief(error)}")
        else:
            raise ConformanceError(f"on {count} replicas a failure of the model passes unseen")
        left = [thread.name for thread in threading.enumerate() if thread not in before and not thread.daemon]
        require(not left, f"on {count} replicas threads are left: {', '.join(left)}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@CHECKS.add
def replicas_agree_when_they_take_a_state(subject: Subject) -> None:
    """Whatever they had before, replicas that load a state are equal."""
    for count, backend in backends(subject, *COUNTS):
        with assembled(experiment(backend=backend)) as parts:
            for shards, rows in feed(parts, 0, 3):
                parts.backend.step(shards, rows, parts.objective)
            parts.backend.load_state_dict(parts.backend.state_dict())
            prints = parts.backend.fingerprint()
        require(len(set(prints)) == 1, f"on {count} replicas the fingerprints are {', '.join(prints)}")


CHECKS += INEXACT
