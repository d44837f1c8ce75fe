"""The backends equal one device, whatever the shards; and the test that says so catches every wrong reduction.

All that is compared is float64, so that a difference is a fault and not rounding.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playground_plugins.backends import playground_backends
from playground_plugins.backends.data_parallel import DataParallel
from playground_plugins.backends.manual import Manual, ring, star
from playground_plugins.backends.single import Single
from playground_plugins.data.airfoil import load
from torch import Tensor, nn
from torch.nn import functional

from playground import Backend, Experiment, Recipe, Registry, ReplicaBackend, Request, RequestError
from playground.components import resolve
from playground.engine import randomness
from playground.engine.assembly import assembled
from playground.engine.batches import Order
from playground.experiment import Choice
from playground.registry import Registration

if TYPE_CHECKING:
    from playground import Objective, Shard
    from playground.engine.assembly import Parts

Reduction = Callable[[list[list[Tensor]]], int]
State = dict[str, Tensor]

BOOK = ("sgd", "momentum", "adagrad", "rmsprop", "adam")
REGISTRY = Registry()
# A quasi-Newton method on batches that change must go gently, or it magnifies rounding without bound.
LBFGS = "lbfgs:lr=0.1,max_iter=5"
SINGLE = "single:devices=cpu"
STEPS = 20
OTHERS = sorted({one.name for one in REGISTRY.of_kind("optimizer")} - {*BOOK, "lbfgs"})
REDUCTIONS = pytest.mark.parametrize("reduction", [star, ring])

no_accelerator = pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator is here")


def experiment(backend: str | Backend, **words: Any) -> Experiment:
    """An experiment on airfoil in float64, with a backend by its expression or made on the spot."""
    words = {"data": "airfoil", "dtype": "float64", **words}
    if isinstance(backend, str):
        return Experiment.of(REGISTRY, {"backend": backend, **words})
    registration = Registration(backend, REGISTRY.plugins[0], backend.name)
    return replace(Experiment.of(REGISTRY, words), backend=Choice.of(registration, {}))


def take_steps(parts: Parts, steps: int = STEPS) -> list[float]:
    """Take the first steps as the training loop does; gives the summed loss of each."""
    epochs = range((steps - 1) // len(parts.order.epoch(0)) + 1)
    batches = [rows for epoch in epochs for rows in parts.order.epoch(epoch)][:steps]
    fed = parts.feeds["train"](parts.backend.shard(rows) for rows in batches)
    return [
        float(parts.backend.step(shards, rows.numel(), parts.objective).loss)
        for rows, shards in zip(batches, fed, strict=True)
    ]


def weights(parts: Parts) -> list[State]:
    """The parameters of every replica."""
    assert isinstance(parts.backend, ReplicaBackend)
    return [{name: value.clone() for name, value in one.model.state_dict().items()} for one in parts.backend.replicas]


@functools.cache
def one_device(
    optimizer: str, batch_size: int, data: str = "airfoil", model: str = "linear"
) -> tuple[State, tuple[float, ...]]:
    """The parameters after the steps on `single`, and the loss of each step."""
    asked = experiment(SINGLE, optimizer=optimizer, batch_size=batch_size, data=data, model=model)
    with assembled(asked) as parts:
        losses = take_steps(parts)
        return weights(parts)[0], tuple(losses)


def check_equals_one_device(
    backend: str | Backend, optimizer: str, batch_size: int, data: str = "airfoil", model: str = "linear"
) -> None:
    """THE check: after the steps every parameter of every replica is that of `single`, and so was every loss."""
    # A quasi-Newton step divides by small differences of gradients, which magnifies their rounding.
    tolerance = 1e-10 if optimizer.startswith("lbfgs") else 1e-12
    expected, expected_losses = one_device(optimizer, batch_size, data, model)
    asked = experiment(backend, optimizer=optimizer, batch_size=batch_size, data=data, model=model)
    with assembled(asked) as parts:
        losses = take_steps(parts)
        for found in weights(parts):
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                torch.testing.assert_close(found[name], value, rtol=0, atol=tolerance)
        assert losses == pytest.approx(expected_losses, rel=1e-9, abs=1e-12)


def manual(devices: int, **parameters: str) -> str:
    return ",".join([f"manual:devices={devices}", *(f"{name}={value}" for name, value in parameters.items())])


@pytest.mark.parametrize("optimizer", BOOK)
@pytest.mark.parametrize("batch_size", [10, 7, 3])
@pytest.mark.parametrize("reduce", ["star", "ring"])
@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_manual_equals_one_device(devices: int, reduce: str, batch_size: int, optimizer: str) -> None:
    check_equals_one_device(manual(devices, reduce=reduce), optimizer, batch_size)


@pytest.mark.parametrize("batch_size", [10, 7, 3])
@pytest.mark.parametrize(("devices", "reduce"), [(1, "star"), (2, "star"), (3, "ring"), (4, "star")])
def test_manual_equals_one_device_for_an_optimizer_that_evaluates_again_within_a_step(
    devices: int, reduce: str, batch_size: int
) -> None:
    check_equals_one_device(manual(devices, reduce=reduce), LBFGS, batch_size)


@pytest.mark.parametrize("optimizer", OTHERS)
def test_every_other_optimizer_that_is_listed_equals_one_device_too(optimizer: str) -> None:
    # Some take matrices only.
    model = "linear:bias=false" if optimizer == "muon" else "linear"
    check_equals_one_device(manual(3), optimizer, 7, model=model)
    check_equals_one_device(manual(4, reduce="ring"), optimizer, 3, model=model)


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_lbfgs_at_its_defaults_on_the_whole_data_equals_one_device(devices: int) -> None:
    check_equals_one_device(manual(devices), "lbfgs", 1499, data="airfoil:rows=1499")


@pytest.mark.parametrize("optimizer", BOOK)
@pytest.mark.parametrize(("rows", "batch_size"), [(29, 10), (9, 9), (5, 5), (3, 3), (11, 5)])
def test_short_last_batches_and_few_rows_equal_one_device(rows: int, batch_size: int, optimizer: str) -> None:
    # The last batches have 9, 9, 5, 3 and 1 rows on four replicas.
    check_equals_one_device(manual(4), optimizer, batch_size, data=f"airfoil:rows={rows}")
    check_equals_one_device(manual(4, reduce="ring"), optimizer, batch_size, data=f"airfoil:rows={rows}")


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_a_model_of_several_layers_equals_one_device(devices: int, optimizer: str) -> None:
    for reduce in ("star", "ring"):
        check_equals_one_device(manual(devices, reduce=reduce), optimizer, 7, model="mlp:hidden=[16,8],activation=tanh")


@pytest.mark.parametrize("optimizer", [*BOOK, LBFGS])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_threads_and_turns_give_bit_equal_numbers(devices: int, optimizer: str) -> None:
    found = []
    for concurrency in ("turns", "threads"):
        with assembled(
            experiment(manual(devices, concurrency=concurrency), optimizer=optimizer, batch_size=7)
        ) as parts:
            losses = take_steps(parts)
            crew = [thread for thread in threading.enumerate() if thread.name.startswith("replica")]
            assert bool(crew) == (concurrency == "threads")
            found.append((weights(parts), losses))
    (turns, turns_losses), (threads, threads_losses) = found
    assert turns_losses == threads_losses
    for mine, its in zip(turns, threads, strict=True):
        assert all(torch.equal(value, its[name]) for name, value in mine.items())


def bare_loop(build: Callable[[list[nn.Parameter]], torch.optim.Optimizer], batch_size: int, epochs: int) -> State:
    """What anyone would write by hand, from the same initial weights and in the same order."""
    inputs, targets = (part.double() for part in load().train)
    model = nn.Linear(5, 1)
    with torch.no_grad():
        model.weight.normal_(0, 0.01, generator=randomness.generator(0, "weights"))
        model.bias.zero_()
    model.double()
    optimizer = build(list(model.parameters()))
    for epoch in range(epochs):
        for rows in Order(1500, batch_size, 0).epoch(epoch):

            def closure(rows: Tensor = rows) -> Tensor:
                optimizer.zero_grad()
                loss = functional.mse_loss(model(inputs[rows]), targets[rows]) / 2
                loss.backward()
                return loss

            optimizer.step(closure)
    return {name: value.detach() for name, value in model.state_dict().items()}


BARE: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.005, momentum=0.9),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, alpha=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    LBFGS: lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=5),
}


@pytest.mark.parametrize("optimizer", BARE)
@pytest.mark.parametrize("batch_size", [140, 128])
def test_single_equals_a_bare_torch_loop(batch_size: int, optimizer: str) -> None:
    # Two epochs: 1500 rows in batches of 128 leave 92, of 140 leave 100.
    expected = bare_loop(BARE[optimizer], batch_size, epochs=2)
    with assembled(experiment(SINGLE, optimizer=optimizer, batch_size=batch_size)) as parts:
        take_steps(parts, 2 * len(parts.order.epoch(0)))
        (found,) = weights(parts)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-12)


def test_single_equals_gradient_descent_written_out() -> None:
    inputs, targets = (part.double() for part in load().train)
    weight = torch.empty(1, 5).normal_(0, 0.01, generator=randomness.generator(0, "weights")).double()
    bias = torch.zeros(1, dtype=torch.float64)
    for rows in Order(1500, 7, 0).epoch(0)[:STEPS]:
        errors = inputs[rows] @ weight.T + bias - targets[rows]
        weight, bias = weight - 0.01 * errors.T @ inputs[rows] / 7, bias - 0.01 * errors.mean(dim=0)
    found, _ = one_device("sgd", 7)
    torch.testing.assert_close(found["weight"], weight, rtol=0, atol=1e-13)
    torch.testing.assert_close(found["bias"], bias, rtol=0, atol=1e-13)


# A test of the test: the mutants below are each wrong in one way, and the check must tell every one of them.


class Skipped(Manual):
    """Every replica goes its own way."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return 0


class Averaged(Manual):
    """The shards are averaged."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        moved = super().reduce(gradients)
        for gradient in itertools.chain.from_iterable(gradients):
            gradient.div_(len(gradients))
        return moved


class NotHandedBack(Manual):
    """The first replica has the sum and keeps it."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for total, *others in zip(*gradients, strict=True):
            for other in others:
                total.add_(other)
        return 0


class FirstHandedToAll(Manual):
    """All get the first replica's gradient instead of the sum."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for first, *others in zip(*gradients, strict=True):
            for other in others:
                other.copy_(first)
        return 0


class OneForgotten(Manual):
    """The second replica's gradient is never added."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        first, forgotten, *others = gradients
        moved = super().reduce([first, *others])
        for total, gradient in zip(first, forgotten, strict=True):
            gradient.copy_(total)
        return moved


class AddedTwice(Manual):
    """The reduction is run on what it has already reduced."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return super().reduce(gradients) + super().reduce(gradients)


class Rounded(Manual):
    """The gradients travel in lower precision."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for gradient in itertools.chain.from_iterable(gradients):
            gradient.copy_(gradient.float())
        return super().reduce(gradients)


class OneModule(Manual):
    """The replicas are one module, as `model.to("cpu")` gives it."""

    def prepare(self, recipe: Recipe) -> None:
        super().prepare(recipe)
        first, *others = self.replicas
        for other in others:
            other.model, other.parameters = first.model, first.parameters
            other.optimizer = recipe.optimizer(first.model.parameters())


class LastRowDropped(Manual):
    """The last row of a batch goes to no replica."""

    def shard(self, rows: Tensor) -> list[Tensor]:
        return super().shard(rows[:-1])


class FirstRowTwice(Manual):
    """Shards are padded with a row that another replica has, so that none is empty or shorter."""

    def shard(self, rows: Tensor) -> list[Tensor]:
        parts = super().shard(rows)
        return [torch.cat([part, rows[:1]]) if len(part) < len(parts[0]) else part for part in parts]


class WeighedByShards(Manual):
    """Every shard's mean loss counts alike, however many rows it has."""

    def prepare(self, recipe: Recipe) -> None:
        super().prepare(recipe)
        for replica in self.replicas:

            def differentiate(
                shard: Shard, count: int, objective: Objective, original: Any = replica.differentiate
            ) -> Tensor:
                rows = sum(len(inputs) for inputs, _ in shard)
                found: Tensor = original(shard, rows * len(self.replicas), objective)
                return found

            replica.differentiate = differentiate


MUTANTS = (
    Skipped,
    Averaged,
    NotHandedBack,
    FirstHandedToAll,
    OneForgotten,
    AddedTwice,
    Rounded,
    OneModule,
    LastRowDropped,
    FirstRowTwice,
    WeighedByShards,
)


@pytest.mark.parametrize("optimizer", BOOK)
# Shards of 4, 3 and 3 rows; of 1, 1, 1 and none.
@pytest.mark.parametrize(("devices", "batch_size"), [(3, 10), (4, 3)])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_catches_a_backend_that_is_wrong(
    mutant: type[Manual], devices: int, batch_size: int, optimizer: str
) -> None:
    backend = Backend("mutant", mutant, defaults={"devices": devices})
    with pytest.raises(AssertionError):
        check_equals_one_device(backend, optimizer, batch_size)


@pytest.mark.parametrize(("devices", "batch_size"), [(3, 10), (4, 7), (4, 3)])
def test_the_check_lets_a_backend_pass_that_differs_from_manual_in_name_only(devices: int, batch_size: int) -> None:
    class Unchanged(Manual):
        pass

    check_equals_one_device(Backend("unchanged", Unchanged, defaults={"devices": devices}), "adam", batch_size)


def test_only_uneven_shards_show_that_rows_are_weighed_by_shards() -> None:
    backend = Backend("mutant", WeighedByShards, defaults={"devices": 2})
    check_equals_one_device(backend, "sgd", 10)
    with pytest.raises(AssertionError):
        check_equals_one_device(backend, "sgd", 7)


def gradients_of(sizes: list[tuple[int, ...]], replicas: int, seed: int) -> list[list[Tensor]]:
    """Whole numbers in float64, whose sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    return [[torch.randint(-1000, 1000, size, generator=generator).double() for size in sizes] for _ in range(replicas)]


SHAPES = st.lists(st.lists(st.integers(0, 5), max_size=3).map(tuple), max_size=5)


@REDUCTIONS
@given(SHAPES, st.integers(1, 7), st.integers(0, 2**32))
@settings(deadline=None, database=None)
def test_a_reduction_leaves_the_exact_sum_on_every_replica(
    reduction: Reduction, sizes: list[tuple[int, ...]], replicas: int, seed: int
) -> None:
    gradients = gradients_of(sizes, replicas, seed)
    expected = [sum(column[1:], column[0]).clone() for column in zip(*gradients, strict=True)]
    reduction(gradients)
    for own in gradients:
        assert all(torch.equal(*pair) for pair in zip(own, expected, strict=True))


@REDUCTIONS
@given(SHAPES, st.integers(1, 7), st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None, database=None)
def test_a_reduction_moves_twice_the_gradient_for_every_replica_but_one(
    reduction: Reduction, sizes: list[tuple[int, ...]], replicas: int, dtype: torch.dtype
) -> None:
    gradients = [[gradient.to(dtype) for gradient in own] for own in gradients_of(sizes, replicas, 0)]
    # n bytes of gradient. Star: each of k - 1 sends n and gets n. Ring: each of k sends 2 n (k - 1) / k.
    n = sum(gradient.numel() * gradient.element_size() for gradient in gradients[0])
    assert reduction(gradients) == 2 * (replicas - 1) * n


@REDUCTIONS
@pytest.mark.parametrize("elements", [1, 2, 5])
def test_fewer_numbers_than_replicas_are_reduced_too(reduction: Reduction, elements: int) -> None:
    gradients = [[torch.full((elements,), 2.0**replica)] for replica in range(6)]
    assert reduction(gradients) == 2 * 5 * 4 * elements
    assert all(own[0].tolist() == [63.0] * elements for own in gradients)


@REDUCTIONS
def test_a_gradient_that_does_not_lie_in_one_piece_is_reduced_in_place(reduction: Reduction) -> None:
    storages = [torch.arange(12.0).reshape(3, 4) * (replica + 1) for replica in range(3)]
    gradients = [[storage.T, storage.T.new_ones(2)] for storage in storages]
    reduction(gradients)
    for storage, own in zip(storages, gradients, strict=True):
        assert torch.equal(storage, torch.arange(12.0).reshape(3, 4) * 6)
        assert own[1].tolist() == [3, 3]


@REDUCTIONS
def test_no_gradients_at_all_are_no_bytes(reduction: Reduction) -> None:
    assert reduction([[], [], []]) == 0


@pytest.mark.parametrize("reduce", ["star", "ring"])
@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_a_step_tells_the_bytes_that_it_moved(devices: int, reduce: str) -> None:
    with assembled(experiment(manual(devices, reduce=reduce))) as parts:
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(10))])
        moved = parts.backend.step(shards, 10, parts.objective).moved
    # Five weights and a bias of eight bytes each.
    assert moved == 2 * (devices - 1) * 48


def test_a_step_that_evaluates_again_tells_the_bytes_of_all_evaluations() -> None:
    with assembled(experiment(manual(2), optimizer="lbfgs:max_iter=3,tolerance_grad=0.0")) as parts:
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(10))])
        moved = parts.backend.step(shards, 10, parts.objective).moved
    assert moved == 3 * 2 * 48


def test_a_strangers_backend_of_a_few_lines_equals_one_device() -> None:
    from playground import ReplicaBackend

    class Gathering(ReplicaBackend):
        """Gathers all gradients on the first device, adds them up there and hands the sum back."""

        def reduce(self, gradients: list[list[Tensor]]) -> int:
            moved = 0
            for parts in zip(*gradients, strict=True):
                total = torch.stack([part.to(parts[0].device) for part in parts]).sum(dim=0)
                for part in parts:
                    part.copy_(total)
                    moved += 2 * part.nbytes
            return moved

    for devices, batch_size in itertools.product((1, 2, 3, 4), (10, 7, 3)):
        backend = Backend("gathering", Gathering, defaults={"devices": devices})
        check_equals_one_device(backend, "adam", batch_size)
    check_equals_one_device(Backend("gathering", Gathering), LBFGS, 7)


def test_a_strangers_backend_takes_the_parameters_of_its_base_and_may_have_its_own() -> None:
    class Scaled(ReplicaBackend):
        def __init__(self, scale: float = 1.0, devices: int = 2) -> None:
            super().__init__(devices)
            self.scale = scale

        def reduce(self, gradients: list[list[Tensor]]) -> int:
            return star(gradients)

    plain = Registration(Backend("plain", type("Plain", (Scaled,), {})), REGISTRY.plugins[0], "plain")
    assert list(plain.parameters) == ["scale", "devices"]
    inherited = type("Inherited", (ReplicaBackend,), {"reduce": lambda self, gradients: star(gradients)})
    registration = Registration(Backend("inherited", inherited), REGISTRY.plugins[0], "inherited")
    assert list(registration.parameters) == ["devices", "concurrency"]
    check_equals_one_device(Backend("inherited", inherited, defaults={"devices": 3}), "adam", 7)


def test_the_backends_are_listed_and_single_is_the_default() -> None:
    listed = {one.name: one for one in playground_backends()}
    factories = {"single": Single, "manual": Manual, "data-parallel": DataParallel}
    assert {name: resolve(one.factory) for name, one in listed.items()} == factories
    assert [name for name, one in listed.items() if one.default] == ["single"]
    assert all(one.exact and one.summary for one in listed.values())


def test_the_backends_are_found_by_their_entry_point() -> None:
    entry_points = importlib.metadata.entry_points(group="playground", name="backends")
    assert [entry.value for entry in entry_points] == ["playground_plugins.backends"]


@no_accelerator
def test_without_accelerators_manual_has_two_replicas_and_single_one() -> None:
    request = Request(batch_size=10, threads=4)
    cpu = torch.device("cpu")
    assert Manual().plan(request).devices == (cpu, cpu)
    assert Single().plan(request).devices == (cpu,)


@pytest.mark.parametrize("devices", ["cpu,cpu", 2, ["cpu", "cpu", "cpu"]])
@no_accelerator
def test_single_refuses_several_devices_and_says_what_to_take(devices: Any) -> None:
    with pytest.raises(RequestError, match="--backend manual"):
        Single(devices).plan(Request(batch_size=10, threads=1))


@pytest.mark.parametrize("backend", ["manual:devices=0", "manual:devices=nonsense", "single:devices=2"])
@no_accelerator
def test_devices_that_are_not_here_are_refused_when_it_is_planned(backend: str) -> None:
    with pytest.raises(RequestError), assembled(experiment(backend)):
        pass


def test_a_reduction_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(RequestError, match=r"star \| ring"):
        experiment("manual:reduce=tree")


def test_making_a_backend_does_nothing() -> None:
    threads, active = torch.get_num_threads(), threading.active_count()
    Manual(devices=10**9, concurrency="threads")
    assert torch.get_num_threads() == threads
    assert threading.active_count() == active
