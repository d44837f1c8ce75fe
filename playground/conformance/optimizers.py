"""What an optimizer promises, looked at on a convex problem in float64."""

from __future__ import annotations

import copy
import inspect
import io
import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import playground.components
from playground.components import resolve
from playground.conformance.checks import Checks, ConformanceError, NotApplicableError, Subject, refuses, require
from playground.conformance.convex import Problem, apart, made, path, same
from playground.conformance.partners import left_out, sound_backends, tried
from playground.conformance.problems import (
    ROWS,
    TOLERANCE,
    Trained,
    choose,
    experiment,
    furthest,
    matrix,
    net,
    numbers,
    reference,
    train,
)
from playground.conformance.values import HOW, flags, others
from playground.engine import randomness
from playground.errors import RequestError, brief
from playground.parameters import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable

    from playground.experiment import Choice

CHECKS = Checks()

NEAR = 0.01
"""The share of its first value that a loss near its optimum has."""

ROUNDED = 1e-6
"""How far ways of computing may be apart: torch keeps some factors of a step in float32, which rounds to 1e-7."""

WRONG: dict[str, Any] = {"lr": -1.0, "weight_decay": -1.0, "momentum": -1.0, "betas": (1.5, 1.5)}
"""Values that no optimizer can mean, for the parameters that nearly all of them have."""


@CHECKS.add_decisive
def is_an_optimizer(subject: Subject) -> str:
    """It is built over parameters with its defaults, is a torch.optim.Optimizer that has them all, and takes a step:
    `step(closure=None)`."""
    problem = Problem()
    optimizer = made(subject.choice, problem.parameters)
    require(isinstance(optimizer, Optimizer), f"it is a {type(optimizer).__name__}")
    held = sum(len(group["params"]) for group in optimizer.param_groups)
    require(held == len(problem.parameters), f"it holds {held} of {len(problem.parameters)} parameters")
    try:
        inspect.signature(optimizer.step).bind(None)
    except TypeError:
        raise ConformanceError("its step takes no closure: write step(self, closure=None)") from None
    if subject.choice.registration.has("closure"):
        problem.step(optimizer)
    else:
        problem.loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return type(optimizer).__name__


@CHECKS.add
def lowers_a_convex_loss(subject: Subject) -> str:
    """At its defaults the loss of a convex problem is lower after 100 steps than before."""
    problem = Problem()
    optimizer = made(subject.choice, problem.parameters)
    first = problem.value()
    for _ in range(100):
        problem.step(optimizer)
    last = problem.value()
    require(last < first, f"the loss goes from {first:.4g} to {last:.4g} in 100 steps")
    return f"from {first:.4g} to {last:.4g}"


@CHECKS.add
def gets_near_the_optimum(subject: Subject) -> str:
    """At its learning rate, or 10 to 1000 times more or 10 times less, 1000 steps bring the loss of a convex problem
    below a hundredth of what it was."""
    default = subject.choice.parameters.get("lr")
    tried = [None] if not isinstance(default, float) else [default * factor for factor in (1, 10, 100, 1000, 0.1)]
    best = math.inf
    for lr in tried:
        problem = Problem()
        optimizer = made(subject.choice, problem.parameters, **({} if lr is None else {"lr": lr}))
        first = problem.value()
        for step in range(1, 1001):
            problem.step(optimizer)
            share = problem.value() / first
            best = min(best, share) if math.isfinite(share) else best
            if share < NEAR:
                return f"in {step} steps" + ("" if lr is None else f" at lr {lr:.3g}")
            if not math.isfinite(share):
                break
    raise ConformanceError(f"the best that it comes to is {best:.3g} of the first loss")


@CHECKS.add
def every_parameter_reaches_it(subject: Subject) -> str:
    """Each declared parameter, changed by itself or together with another, changes its updates or its state."""
    known = {name: one for name, one in subject.choice.registration.parameters.items() if name not in HOW}
    if not known:
        raise NotApplicableError("it has no parameters")
    # What it raises at its own values is told as that.
    path(subject.choice)
    values_of = {name: list(others(one, subject.choice)) for name, one in known.items()}
    # A parameter may show only beside another: Nesterov's momentum needs a momentum.
    context = {name: values[0] for name, values in values_of.items() if values}
    unknown, unseen = [], []
    for name, values in values_of.items():
        if not values:
            unknown.append(name)
            continue
        beside: list[dict[str, Any]] = [{}, *({other: value} for other, value in context.items() if other != name)]
        if not any(_shows(subject.choice, around, {name: value}) for around in beside for value in values):
            unseen.append(f"{name}: {subject.choice.parameters[name]!r} → {values[0]!r}")
    require(not unseen, f"{'; '.join(unseen)} changes neither an update nor the state")
    rest = f"; no other value is known for {', '.join(unknown)}" if unknown else ""
    return f"{len(known) - len(unknown)} of {len(known)}{rest}"


def _shows(choice: Choice, around: dict[str, Any], changed: dict[str, Any]) -> bool:
    try:
        before, after = path(choice, **around), path(choice, **around, **changed)
    except Exception:
        # Values that it refuses in this company.
        return False
    return not same(before, after)


@CHECKS.add
def invalid_values_are_refused(subject: Subject) -> str:
    """A negative lr, weight decay or momentum, and betas above 1, are refused with a ValueError when it is built."""
    tried = [name for name in WRONG if name in subject.choice.registration.parameters]
    if not tried:
        raise NotApplicableError(f"it has none of {', '.join(WRONG)}")
    taken = []
    for name in tried:
        try:
            made(subject.choice, Problem().parameters, **{name: WRONG[name]})
        except RequestError as error:
            said = "" if refuses(error) else f"{name}={WRONG[name]} ends in {brief(error.__cause__ or error, 80)}"
        else:
            said = f"it takes {name}={WRONG[name]}"
        taken += [said] if said else []
    require(not taken, "; ".join(taken))
    return ", ".join(tried)


@CHECKS.add
def goes_on_from_its_state(subject: Subject) -> None:
    """Five steps, its state saved, loaded into a new one, and five more give bit for bit what ten steps give."""
    with randomness.drawing(0, "optimizer"):
        # In float32: loading puts torch's numbers that are no steps into the parameters' precision.
        whole = Problem((torch.float32, torch.float32))
        optimizer = made(subject.choice, whole.parameters)
        for _ in range(5):
            whole.step(optimizer)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        halved = copy.deepcopy(whole)
        drawn = torch.get_rng_state()
        for _ in range(5):
            whole.step(optimizer)
        torch.set_rng_state(drawn)
        another = made(subject.choice, halved.parameters)
        another.load_state_dict(torch.load(file, weights_only=True))
        for _ in range(5):
            halved.step(another)
    far = apart(whole.values(), halved.values())
    require(far == 0, f"after the state is loaded the parameters come to differ by {far:.3g}")


@CHECKS.add
def is_deterministic(subject: Subject) -> None:
    """The same steps under the same seed give the same bits."""
    far = apart(path(subject.choice)[0], path(subject.choice)[0])
    require(far == 0, f"two equal trainings differ by {far:.3g}")


@CHECKS.add
def parameter_groups_have_their_own_lr(subject: Subject) -> None:
    """Two groups with one lr are as one group; halving the second one's lr changes its updates, and not the other's
    first."""
    lr = subject.choice.parameters.get("lr")
    if not isinstance(lr, float):
        raise NotApplicableError("it has no lr that is a number")

    def steps(second: float | None) -> list[list[Tensor]]:
        problem = Problem()
        first, last = problem.parameters
        groups: Any = [{"params": [first]}, {"params": [last], "lr": second}] if second else [first, last]
        try:
            optimizer = made(subject.choice, groups)
        except RequestError as error:
            if not refuses(error):
                raise
            raise NotApplicableError(f"it takes no groups: {brief(error.__cause__ or error)}") from None
        found = []
        with randomness.drawing(0, "optimizer"):
            for _ in range(3):
                problem.step(optimizer)
                found.append(problem.values())
        return found

    one, alike, halved = steps(None), steps(lr), steps(lr / 2)
    far = max(apart(a, b) for a, b in zip(one, alike, strict=True))
    require(far <= TOLERANCE, f"two groups with one lr differ from one group by {far:.3g}")
    require(apart([halved[0][0]], [one[0][0]]) <= TOLERANCE, "the second group's lr changes the first group's updates")
    require(not torch.equal(halved[0][1], one[0][1]), "half the lr in the second group changes none of its updates")


@CHECKS.add
def the_lr_of_its_groups_counts(subject: Subject) -> str:
    """It takes its lr from its parameter groups, where schedules change it: halved there once it is built, it takes
    other steps."""
    if not isinstance(subject.choice.parameters.get("lr"), float):
        raise NotApplicableError("it has no lr that is a number")

    def end(halved_before: int | None) -> list[Tensor]:
        problem = Problem()
        optimizer = made(subject.choice, problem.parameters)
        with randomness.drawing(0, "optimizer"):
            for step in range(3):
                if step == halved_before:
                    for group in optimizer.param_groups:
                        group["lr"] /= 2
                problem.step(optimizer)
        return problem.values()

    plain = end(None)
    require(apart(end(0), plain) > 0, "half the lr in its groups changes none of its steps")
    return "" if apart(end(2), plain) > 0 else "only before its first step"


@CHECKS.add
def parameters_without_gradient_are_left_alone(subject: Subject) -> None:
    """A parameter that has no gradient, because nothing uses it or because it is not trained, stays as it is."""
    for trained in (True, False):
        problem = Problem()
        unused = nn.Parameter(numbers(3, 2, 5), requires_grad=trained)
        before = unused.detach().clone()
        optimizer = made(subject.choice, [*problem.parameters, unused])
        for _ in range(3):
            problem.step(optimizer)
        what = "without a gradient" if trained else "that is not trained"
        far = apart([unused.detach()], [before])
        require(far == 0, f"a parameter {what} moves by {far:.3g}")


@CHECKS.add
def ways_of_computing_agree(subject: Subject) -> str:
    """`foreach` and `fused`, where it has them, give the numbers of a loop over single tensors, with every flag that it
    takes, and with parameters of two precisions."""
    have = [name for name in ("foreach", "fused") if name in subject.choice.registration.parameters]
    if not have:
        raise NotApplicableError("it has neither foreach nor fused")
    off: dict[str, Any] = dict.fromkeys(have, False)
    said = []
    plain, _ = path(subject.choice, **off)
    for name in have:
        settings = 2
        try:
            other, _ = path(subject.choice, **{**off, name: True})
        except Exception as error:
            said.append(f"{name} is not to be had here: {brief(error, 80)}")
            continue
        _agree(name, "its defaults", plain, other)
        for changed in flags(subject.choice):
            said_so = ", ".join(f"{key}={value}" for key, value in changed.items())
            try:
                loop = path(subject.choice, **off, **changed)[0]
            except Exception:
                # A flag that it refuses in this company.
                continue
            _agree(name, said_so, loop, path(subject.choice, **{**off, name: True}, **changed)[0])
            settings += 1
        mixed = (torch.float64, torch.float32)
        _agree(
            name,
            "float32 beside float64",
            path(subject.choice, dtypes=mixed, **off)[0],
            path(subject.choice, dtypes=mixed, **{**off, name: True})[0],
        )
        said.append(f"{name} in {settings} settings")
    return ", ".join(said)


def _agree(name: str, flags: str, loop: list[Tensor], other: list[Tensor]) -> None:
    far = apart(loop, other)
    require(far <= ROUNDED, f"with {flags}, {name}=true differs from a loop by {far:.3g} within 20 steps")


@CHECKS.add
def keeps_float64(subject: Subject) -> None:
    """Parameters and the tensors of their shape in the state stay float64."""
    problem = Problem()
    optimizer = made(subject.choice, problem.parameters)
    for _ in range(3):
        problem.step(optimizer)
    for parameter in problem.parameters:
        require(parameter.dtype == torch.float64, f"a parameter becomes {parameter.dtype}")
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.is_floating_point():
                require(value.dtype == torch.float64, f"'{name}' in its state is {value.dtype}")


@CHECKS.add
def calls_its_closure(subject: Subject) -> str:
    """`step(closure)` evaluates the closure with gradients enabled, and returns its first loss."""
    problem = Problem()
    optimizer = made(subject.choice, problem.parameters)
    calls = []

    def closure() -> Tensor:
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = problem.loss()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    before = problem.value()
    with torch.no_grad():
        returned = optimizer.step(closure)  # type: ignore[arg-type]
    require(bool(calls), "it does not call the closure")
    require(all(calls), "it calls the closure with gradients disabled")
    require(returned is not None, "it returns None, not the closure's loss")
    value = torch.as_tensor(returned).detach().item()
    require(value == before, f"it returns {value:.6g}, not the closure's loss {before:.6g}")
    if subject.choice.registration.has("closure"):
        return f"{len(calls)} times in a step"
    require(len(calls) == 1, f"it calls the closure {len(calls)} times, and its component does not say closure=True")
    return "once"


@CHECKS.add
def is_the_same_on_every_exact_backend(subject: Subject) -> str:
    """Five steps of a small model on every exact backend, on 1, 2 and 3 replicas, give one device's numbers."""
    words: dict[str, Any] = {"optimizer": subject.choice}
    model: Callable[..., nn.Module] = net
    if subject.choice.registration.has("closure"):
        # What evaluates again within a step magnifies rounding, the more the less convex the problem is.
        words |= {"batch_size": ROWS, "steps": 1}
        model = matrix
    try:
        expected = train(experiment(backend=reference(), model=model, **words))
    except RequestError:
        # Not every optimizer takes a bias, which is no matrix.
        model = matrix
        expected = train(experiment(backend=reference(), model=model, **words))
    _compare("the kit's replicas", train(experiment(backend=reference(2), model=model, **words)), expected)
    backends, unfit = sound_backends(subject.registry, 1, 2, 3)
    for name, backend in backends.items():
        found = tried(experiment(backend=backend, model=model, **words))
        if isinstance(found, BaseException):
            raise ConformanceError(f"{name}: {brief(found)}") from found
        _compare(name, found, expected)
    return ", ".join(["the kit's replicas", *backends]) + left_out(unfit)


def _compare(name: str, found: Trained, expected: Trained) -> None:
    far, where = furthest(found.model, expected.model)
    require(far <= TOLERANCE, f"{name}: {where} differs from one device's by {far:.3g} after {len(found.losses)} steps")


@CHECKS.add
def equals_its_reference(subject: Subject) -> str:
    """Where the component names a reference, 20 steps with the same parameters give the same numbers."""
    component = cast("playground.components.Optimizer", subject.choice.registration.component)
    named = component.reference
    if named is None:
        raise NotApplicableError("its component names none")
    theirs = choose(playground.components.Optimizer("reference", resolve(named)))
    shared = {
        name: value
        for name, value in subject.choice.parameters.items()
        if name in theirs.registration.parameters and name not in HOW and value is not REQUIRED
    }
    far = apart(path(subject.choice)[0], path(theirs, **shared)[0])
    require(far <= TOLERANCE, f"it differs from {named} by {far:.3g} within 20 steps")
    for name in shared:
        for value in others(subject.choice.registration.parameters[name], subject.choice):
            try:
                mine, its = path(subject.choice, **{name: value})[0], path(theirs, **{**shared, name: value})[0]
            except Exception:
                # A value that only one of them takes; whether it should is another check's business.
                continue
            far = apart(mine, its)
            require(far <= TOLERANCE, f"with {name}={value!r} it differs from {named} by {far:.3g} within 20 steps")
    return f"{named}, with {', '.join(shared) or 'no parameters'}"
