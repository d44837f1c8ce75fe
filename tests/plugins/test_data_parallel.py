"""`data-parallel`: the algorithm of torch.nn.DataParallel on CPU replicas equals one device, whatever the batch.

What is compared with a tolerance is float64, so that a difference is a fault and not rounding. Where a model's numbers
depend on how a batch is cut (batch normalisation, dropout), `manual` is compared with where it cuts alike, and a few
lines of plain torch where it does not.
"""

from __future__ import annotations

import copy
import functools
import gc
import io
import itertools
import math
import threading
import time
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playground_plugins.backends.data_parallel import DataParallel
from torch import Tensor, nn
from torch.nn import functional

from playground import Data, Dataset, Model, Optimizer, Request, RequestError, ShardError
from playground.engine import devices
from playground.engine.assembly import assembled

from ..playground.engine.workbench import (
    BOOK,
    data,
    difference,
    evaluate,
    experiment,
    numbers,
    replicas,
    same,
    take_steps,
    train,
    trained,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playground import StepResult
    from playground.engine.assembly import Parts

State = dict[str, Tensor]

CPU = torch.device("cpu")
CUDA = [torch.device("cuda", index) for index in range(3)]
# A quasi-Newton method on batches that change must go gently, or it magnifies rounding without bound.
LBFGS = "lbfgs:lr=0.1,max_iter=5"
STEPS = 5
TOLERANCE = 1e-10
# What every parameter must have moved by at least, or its equality says nothing.
MOVED = 1e-6
# Threads start after three steps.
CONCURRENCY = pytest.mark.parametrize("concurrency", ["turns", "threads"])

no_accelerator = pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator is here")


def single() -> dict[str, Any]:
    return {"name": "single", "devices": "cpu"}


def manual(count: int) -> dict[str, Any]:
    return {"name": "manual", "devices": ["cpu"] * count}


def parallel(count: int, concurrency: str = "auto") -> dict[str, Any]:
    return {"name": "data-parallel", "devices": ["cpu"] * count, "concurrency": concurrency}


def made(build: Callable[[], nn.Module]) -> Model:
    """A model component that gives what is built here, whatever the data."""
    return Model("made-here", lambda inputs, outputs: build())


def images(rows: int, side: int = 6, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Images (rows, 1, side, side) and their classes (rows,), which a few pixels decide."""
    inputs = torch.randn(rows, 1, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return inputs, inputs[:, 0, 1, :classes].argmax(dim=1)


def pictures(rows: int, side: int = 6, classes: int = 3) -> Data:
    return Data("pictures", lambda: Dataset(images(rows, side, classes), task="classification", classes=classes))


def convolution(norm: bool = False, dropout: float = 0.0) -> nn.Sequential:
    """From images (N, 1, 6, 6) to three classes."""
    return nn.Sequential(
        OrderedDict(
            convolution=nn.Conv2d(1, 2, 3),
            norm=nn.BatchNorm2d(2) if norm else nn.Identity(),
            activation=nn.Tanh(),
            rows=nn.Flatten(),
            dropout=nn.Dropout(dropout),
            output=nn.Linear(32, 3),
        )
    )


def words(rows: int, **more: Any) -> dict[str, Any]:
    """An experiment on so many images in float64, all of them in every batch."""
    return {"data": pictures(rows), "batch_size": rows, "dtype": "float64", "optimizer": "sgd:lr=0.1", **more}


def feed(parts: Parts, *batches: Tensor) -> list[StepResult]:
    """Take a step on each of these batches of row numbers."""
    fed = parts.feeds["train"](map(parts.backend.shard, batches))
    return [parts.backend.step(shards, len(rows), parts.objective) for rows, shards in zip(batches, fed, strict=True)]


def state(parts: Parts) -> State:
    found: State = parts.backend.state_dict()["model"]
    return found


def crew() -> list[str]:
    """The threads that work for replicas."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("replica", "relay"))]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        yield
    assert crew() == []
    assert torch.get_num_threads() == threads


# Equality with one device, for the models that come with the project.

MODELS = {"lenet": ("lenet:std=0.1", 14), "resnet": ("resnet18:widths=[4, 8],batch_norm=false,std=0.1", 12)}


def pass_through(backend: dict[str, Any], model: str, optimizer: str, rows: int, batch_size: int) -> tuple[State, ...]:
    """The initial state and the one after the steps, and the summed loss of each step."""
    expression, side = MODELS[model]
    asked = {"data": pictures(rows, side, 4), "model": expression, "optimizer": optimizer, "dtype": "float64"}
    with assembled(experiment(backend=backend, batch_size=batch_size, **asked)) as parts:
        before = state(parts)
        losses = {str(step): result.loss for step, result in enumerate(take_steps(parts, STEPS))}
        return before, state(parts), losses


@functools.cache
def on_one_device(model: str, optimizer: str, rows: int, batch_size: int) -> tuple[State, ...]:
    return pass_through(single(), model, optimizer, rows, batch_size)


def check_equals_one_device(
    backend: dict[str, Any], model: str, optimizer: str, rows: int, batch_size: int | None = None
) -> None:
    """THE check: parameters that have all moved, and losses, are those of one device."""
    batch_size = batch_size or rows
    before, expected, expected_losses = on_one_device(model, optimizer, rows, batch_size)
    for name, value in expected.items():
        assert float((value - before[name]).abs().max()) > MOVED, f"{name} hardly moves"
    _, found, losses = pass_through(backend, model, optimizer, rows, batch_size)
    assert difference(found, expected) <= TOLERANCE
    assert difference(losses, expected_losses) <= TOLERANCE


@pytest.mark.parametrize("optimizer", BOOK)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("backend", [parallel, manual])
def test_any_number_of_replicas_equals_one_device(
    backend: Callable[[int], dict[str, Any]], count: int, model: str, optimizer: str
) -> None:
    check_equals_one_device(backend(count), model, optimizer, 10)


@pytest.mark.parametrize("model", MODELS)
# Cut into 22, 22 and 20 rows; 3, 3 and 1; 3, 3, 3 and none; 2, 2, 1 and none; one each and none.
@pytest.mark.parametrize(("rows", "count"), [(64, 3), (7, 3), (9, 4), (5, 4), (2, 3), (1, 2)])
def test_batches_that_do_not_divide_equal_one_device(rows: int, count: int, model: str) -> None:
    check_equals_one_device(parallel(count), model, "momentum", rows)
    check_equals_one_device(manual(count), model, "momentum", rows)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_short_last_batch_equals_one_device(optimizer: str, model: str) -> None:
    # Batches of 10, 10 and 1 rows.
    check_equals_one_device(parallel(3), model, optimizer, 21, 10)
    check_equals_one_device(manual(3), model, optimizer, 21, 10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("backend", [parallel, manual])
def test_an_optimizer_that_evaluates_again_within_a_step_equals_one_device(
    backend: Callable[[int], dict[str, Any]], count: int, model: str
) -> None:
    check_equals_one_device(backend(count), model, LBFGS, 10)


def test_the_real_images_equal_one_device(fashion_mnist: Path) -> None:
    asked = {
        "data": {"name": "fashion-mnist", "rows": 110, "test_rows": 10, "path": str(fashion_mnist)},
        "model": "lenet:std=0.1",
        "optimizer": "adagrad",
        # Three batches an epoch, the last of 10 rows.
        "batch_size": 50,
        "dtype": "float64",
    }
    with assembled(experiment(backend=single(), **asked)) as parts:
        before = state(parts)
        take_steps(parts, STEPS)
        expected, measured = state(parts), evaluate(parts)
    for name, value in expected.items():
        assert float((value - before[name]).abs().max()) > MOVED, f"{name} hardly moves"
    for backend in (parallel(2), parallel(3), manual(3)):
        with assembled(experiment(backend=backend, **asked)) as parts:
            take_steps(parts, STEPS)
            assert difference(state(parts), expected) <= TOLERANCE
            assert evaluate(parts) == pytest.approx(measured, rel=1e-10)


@functools.cache
def one_step(model: str, rows: int) -> State:
    return trained(1, backend=single(), **property_words(model, rows))


@functools.cache
def property_words(model: str, rows: int) -> dict[str, Any]:
    if model == "linear":
        return {"data": data(numbers(rows)), "batch_size": rows, "dtype": "float64", "model": "linear"}
    return words(rows, model=made(convolution))


@given(st.sampled_from(["linear", "convolution"]), st.integers(1, 40), st.integers(1, 5))
@settings(deadline=None, database=None, max_examples=60)
def test_one_step_on_any_number_of_rows_and_replicas_is_that_of_one_device(model: str, rows: int, count: int) -> None:
    found = trained(1, backend=parallel(count), **property_words(model, rows))
    assert difference(found, one_step(model, rows)) <= 1e-12


# The algorithm, written out.


def written_out(model: nn.Module, inputs: Tensor, targets: Tensor, count: int, steps: int) -> State:
    """Gradient descent with lr 0.1 on the sum of the gradients of `count` parts ÷ rows; the first keeps its buffers."""
    size = math.ceil(len(inputs) / count)
    for _ in range(steps):
        copies = [copy.deepcopy(model) for _ in range(0, len(inputs), size)]
        for number, one in enumerate(copies):
            rows = slice(number * size, (number + 1) * size)
            functional.cross_entropy(one(inputs[rows]), targets[rows], reduction="sum").backward()
        model = copies[0]
        gradients = [[parameter.grad for parameter in one.parameters()] for one in copies]
        with torch.no_grad():
            for parameter, *parts in zip(model.parameters(), *gradients, strict=True):
                parameter -= 0.1 * sum(parts) / len(inputs)
        model.zero_grad()
    return model.state_dict()


@CONCURRENCY
@pytest.mark.parametrize("norm", [False, True])
# Cut into 2, 2, 2 and 2 rows; 3, 3 and 1; 2, 2, 2 and 1; 3, 3, 3 and none; 2, 2, 1 and none.
@pytest.mark.parametrize(("rows", "count"), [(8, 4), (7, 3), (7, 4), (9, 4), (5, 4)])
def test_it_is_the_sum_of_the_gradients_of_chunks_over_the_number_of_rows(
    rows: int, count: int, norm: bool, concurrency: str
) -> None:
    asked = words(rows, model=made(functools.partial(convolution, norm)))
    inputs, targets = images(rows)
    with assembled(experiment(backend=parallel(count, concurrency), **asked)) as parts:
        before = state(parts)
        feed(parts, *[torch.arange(rows)] * STEPS)
        found = state(parts)
        assert bool(crew()) == (concurrency == "threads")
    model = convolution(norm).double()
    model.load_state_dict(before)
    assert difference(found, written_out(model, inputs, targets, count, STEPS)) <= 1e-12
    assert difference(found, before) > 1e-3


# Batch normalisation and dropout work on each replica's rows.

PER_REPLICA = {
    "batch normalisation": functools.partial(convolution, norm=True),
    "dropout": functools.partial(convolution, dropout=0.5),
    "both": functools.partial(convolution, norm=True, dropout=0.5),
}


# Where torch.chunk cuts as `manual` does.
@pytest.mark.parametrize(("rows", "count"), [(6, 1), (6, 2), (7, 2), (6, 3), (8, 3), (12, 4)])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("model", PER_REPLICA)
def test_batch_norm_and_dropout_are_those_of_manual_where_both_cut_alike(
    model: str, optimizer: str, rows: int, count: int
) -> None:
    asked = words(rows, model=made(PER_REPLICA[model]), optimizer=optimizer)
    expected = trained(STEPS, backend=manual(count), **asked)
    found = trained(STEPS, backend=parallel(count), **asked)
    assert ("norm.running_mean" in found) == ("norm" in model or model == "both")
    assert difference(found, expected) <= TOLERANCE


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("model", PER_REPLICA)
def test_batch_norm_and_dropout_are_not_those_of_one_device(model: str, count: int) -> None:
    asked = words(6, model=made(PER_REPLICA[model]))
    on_one = trained(STEPS, backend=single(), **asked)
    assert difference(trained(STEPS, backend=parallel(count), **asked), on_one) > 1e-3


@pytest.mark.parametrize("optimizer", ["momentum", "adam", LBFGS])
@pytest.mark.parametrize("model", ["none", *PER_REPLICA])
@pytest.mark.parametrize(("rows", "count"), [(8, 2), (8, 3), (9, 4)])
def test_threads_and_turns_give_bit_equal_numbers(rows: int, count: int, model: str, optimizer: str) -> None:
    asked = words(rows, model=made(PER_REPLICA.get(model, convolution)), optimizer=optimizer)
    found = []
    for concurrency in ("turns", "threads"):
        with assembled(experiment(backend=parallel(count, concurrency), **asked)) as parts:
            losses = [result.loss for result in take_steps(parts, 2 * STEPS)]
            # Replicas that draw random numbers take turns in any case.
            drawing = model in ("dropout", "both")
            assert any(name.startswith("replica") for name in crew()) == (concurrency == "threads" and not drawing)
            found.append((parts.backend.state_dict(), losses, evaluate(parts)))
    assert same(*found)


class LateDropout(nn.Module):
    """Dropout that begins when its buffer says so."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1)
        self.register_buffer("begun", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(functional.dropout(inputs, 0.5, training=bool(self.begun)))


def test_replicas_that_begin_to_draw_when_threads_run_already_give_the_numbers_of_turns() -> None:
    found = []
    for backend in (parallel(2, "turns"), parallel(2, "threads"), manual(2)):
        asked = {"data": data(numbers(8)), "model": made(LateDropout), "batch_size": 8, "dtype": "float64"}
        with assembled(experiment(backend=backend, **asked)) as parts:
            take_steps(parts, STEPS)
            assert len(crew()) == 2 * (backend.get("concurrency") == "threads")
            for one in replicas(parts):
                one.model.begun.fill_(1)
            take_steps(parts, STEPS)
            found.append(state(parts))
    assert same(found[0], found[1])
    assert difference(found[0], found[2]) <= 1e-12


def test_replicas_draw_of_their_own_also_where_the_whole_model_is_in_eval_mode() -> None:
    def build() -> nn.Module:
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1))
        model.training = False
        return model

    asked = {"data": data(numbers(8)), "model": made(build), "batch_size": 8, "dtype": "float64"}
    expected = trained(STEPS, backend=manual(2), **asked)
    for concurrency in ("turns", "threads"):
        assert difference(trained(STEPS, backend=parallel(2, concurrency), **asked), expected) <= 1e-12


# Models that are not all trained, or not all used.


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("optimizer", ["momentum:weight_decay=0.1", "adam:weight_decay=0.1"])
def test_parameters_that_are_not_trained_stay_and_the_others_are_those_of_one_device(
    optimizer: str, count: int
) -> None:
    def build() -> nn.Module:
        model = convolution()
        model.convolution.requires_grad_(False)
        return model

    asked = words(7, model=made(build), optimizer=optimizer)
    expected = trained(STEPS, backend=single(), **asked)
    with assembled(experiment(backend=parallel(count), **asked)) as parts:
        before = state(parts)
        take_steps(parts, STEPS)
        found = state(parts)
        assert all(parameter.grad is None for parameter in replicas(parts)[0].model.convolution.parameters())
    for name in ("convolution.weight", "convolution.bias"):
        assert torch.equal(found[name], before[name])
    assert difference({"": found["output.weight"]}, {"": before["output.weight"]}) > 1e-3
    assert difference(found, expected) <= TOLERANCE


class PartlyUsed(nn.Module):
    """A layer for all rows, one for the rows with a positive first number, one for none."""

    def __init__(self) -> None:
        super().__init__()
        self.common, self.some, self.unused = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.common(inputs)
        chosen = inputs[:, 0] > 0
        if chosen.any():
            outputs = outputs.index_add(0, chosen.nonzero()[:, 0], self.some(inputs[chosen]))
        return outputs


@pytest.mark.parametrize("optimizer", ["momentum:weight_decay=0.1", "adam:weight_decay=0.1"])
@CONCURRENCY
def test_parameters_that_few_or_no_replicas_use_are_updated_as_on_one_device(concurrency: str, optimizer: str) -> None:
    inputs, targets = numbers(9)
    order = inputs[:, 0].argsort()
    inputs, targets = inputs[order], targets[order]
    # On three replicas of three rows: rows that only the last chooses, none, only the first.
    chosen = (inputs[:, 0] > 0).tolist()
    assert chosen == [False] * 6 + [True] * 3
    batches = [torch.arange(9), torch.arange(6), torch.arange(8, -1, -1)] * 2
    asked = {"data": data((inputs, targets)), "model": made(PartlyUsed), "optimizer": optimizer, "dtype": "float64"}
    found = []
    for backend in (single(), parallel(3, concurrency)):
        with assembled(experiment(backend=backend, batch_size=9, **asked)) as parts:
            model = replicas(parts)[0].model
            before = state(parts)
            gradients = []
            for rows in batches:
                feed(parts, rows)
                gradients.append([None if one.grad is None else one.grad.clone() for one in model.parameters()])
            found.append((state(parts), gradients))
        # A gradient of zeros would decay them.
        assert torch.equal(found[-1][0]["unused.weight"], before["unused.weight"])
        assert not torch.equal(found[-1][0]["some.weight"], before["some.weight"])
    (expected, its), (mine, own) = found
    assert [[one is None for one in step] for step in own] == [[one is None for one in step] for step in its]
    assert [one is None for one in own[1]] == [False, False, True, True, True, True]
    for one, other in zip(itertools.chain(*own), itertools.chain(*its), strict=True):
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert difference(mine, expected) <= TOLERANCE


class SumOfWeights(nn.Module):
    """Autograd gives both weights one tensor as their gradients, and the scales one number, expanded."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.ones(2, 1)), nn.Parameter(torch.zeros(2, 1))
        self.scales = nn.Parameter(torch.full((3,), 0.1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs @ (self.one + self.other) * self.scales.sum()


@CONCURRENCY
@pytest.mark.parametrize("count", [2, 3])
def test_gradients_that_share_their_memory_are_added_up_each_for_itself(count: int, concurrency: str) -> None:
    asked = {"data": data(numbers(7)), "model": made(SumOfWeights), "batch_size": 7, "dtype": "float64"}
    expected = trained(STEPS, backend=single(), **asked)
    assert difference(trained(STEPS, backend=parallel(count, concurrency), **asked), expected) <= 1e-12


def test_a_weight_that_two_layers_share_is_that_of_one_device() -> None:
    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Linear(2, 1))
        model[2].weight = model[0].weight
        return model

    asked = {"data": data(numbers(7)), "model": made(build), "batch_size": 7, "dtype": "float64", "optimizer": "adam"}
    expected = trained(STEPS, backend=single(), **asked)
    assert difference(trained(STEPS, backend=parallel(3), **asked), expected) <= 1e-12


# Buffers and modes go from the first replica to the others, and never back.


class Buffers(nn.Module):
    """Counts its passes in training, in place and out of place, and multiplies by what it has counted."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1)
        self.register_buffer("within", torch.zeros(1))
        self.register_buffer("anew", torch.zeros(1))
        self.register_buffer("grown", torch.ones(1))
        self.register_buffer("late", None)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.within += 1
            self.anew = self.anew + 1
            self.grown = torch.cat([self.grown, self.grown[-1:] / 2])
            self.late = torch.zeros_like(self.anew) if self.late is None else self.late + 0.1
        late = 0 if self.late is None else self.late
        return self.output(inputs) * (self.within * self.anew + self.grown.sum() + late)


@CONCURRENCY
def test_buffers_that_change_are_those_of_one_device_also_for_replicas_that_were_idle(concurrency: str) -> None:
    asked = {"data": data(numbers(6)), "model": made(Buffers), "batch_size": 6, "dtype": "float64", "lr": 1e-3}
    batches = [torch.arange(6), torch.arange(1), torch.arange(3), torch.arange(2), torch.arange(6), torch.arange(6)]
    found = []
    for backend in (single(), parallel(3, concurrency)):
        with assembled(experiment(backend=backend, **asked)) as parts:
            before = state(parts)
            feed(parts, *batches)
            found.append((state(parts), evaluate(parts)))
    (expected, its), (mine, own) = found
    assert mine["within"].item() == mine["anew"].item() == 6
    assert mine["grown"].tolist() == [1 / 2**power for power in range(7)]
    assert mine["late"].item() == pytest.approx(0.5)
    assert difference(mine, expected) <= 1e-12
    assert difference({"": mine["output.weight"]}, {"": before["output.weight"]}) > 1e-2
    assert own == pytest.approx(its, rel=1e-12)


class LastMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.mean.copy_(inputs.mean())
        return self.output(inputs) + self.mean


def test_the_first_replicas_buffers_are_kept_and_every_replica_evaluates_with_them() -> None:
    inputs, targets = numbers(7)
    asked = {"data": data((inputs, targets)), "model": made(LastMean), "batch_size": 7, "dtype": "float64"}
    with assembled(experiment(backend=parallel(3), **asked)) as parts:
        feed(parts, *[torch.arange(7)] * STEPS)
        found, sums = parts.backend.state_dict(), evaluate(parts)
    assert found["model"]["mean"].item() == pytest.approx(inputs[:3].mean().item(), rel=1e-15)
    with assembled(experiment(backend=single(), **asked)) as parts:
        parts.backend.load_state_dict(found)
        assert sums == pytest.approx(evaluate(parts), rel=1e-12)


@CONCURRENCY
def test_a_batch_norm_that_is_in_eval_mode_stays_so_on_every_replica(concurrency: str) -> None:
    def build() -> nn.Module:
        model = convolution(norm=True)
        model.norm.eval()
        with torch.no_grad():
            model.norm.running_mean.fill_(0.3)
        return model

    asked = words(7, model=made(build), optimizer="momentum")
    found = []
    for backend in (single(), parallel(3, concurrency)):
        with assembled(experiment(backend=backend, **asked)) as parts:
            take_steps(parts, STEPS)
            # An evaluation switches all modes, and switches them back.
            sums = evaluate(parts)
            take_steps(parts, STEPS, start=STEPS)
            found.append((state(parts), sums))
    (expected, its), (mine, own) = found
    assert difference(mine, expected) <= TOLERANCE
    assert mine["norm.running_mean"].tolist() == pytest.approx([0.3, 0.3])
    assert mine["norm.num_batches_tracked"].item() == 0
    assert own == pytest.approx(its, rel=1e-10)


def test_a_mode_that_is_changed_between_steps_is_passed_on_to_every_replica() -> None:
    asked = words(7, model=made(functools.partial(convolution, norm=True)))
    inputs, targets = images(7)
    with assembled(experiment(backend=parallel(3), **asked)) as parts:
        feed(parts, torch.arange(7))
        replicas(parts)[0].model.norm.eval()
        model = convolution(norm=True).double()
        model.load_state_dict(state(parts))
        model.norm.eval()
        feed(parts, *[torch.arange(7)] * STEPS)
        assert difference(state(parts), written_out(model, inputs, targets, 1, STEPS)) <= 1e-12


# Evaluation.


@CONCURRENCY
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_an_evaluation_counts_each_row_once_and_changes_nothing(count: int, concurrency: str) -> None:
    def build() -> nn.Module:
        return nn.Sequential(convolution(norm=True, dropout=0.5), nn.Linear(3, 3))

    # Every row is of class 0, and so the model says.
    inputs, _ = images(22)
    rows = Data("rows", lambda: Dataset((inputs, torch.zeros(22, dtype=torch.int64)), None, "classification", 3))
    with assembled(
        experiment(backend=parallel(count, concurrency), **words(22, data=rows, model=made(build)))
    ) as parts:
        take_steps(parts, STEPS)
        model = replicas(parts)[0].model
        model[0].activation.eval()
        with torch.no_grad():
            model[1].weight.zero_()
            model[1].bias.copy_(torch.tensor([1.0, 0.0, 0.0]))
        before, modes = parts.backend.state_dict(), [module.training for module in model.modules()]
        generator = torch.get_rng_state()
        seen: list[int] = []
        with parts.backend.watched(lambda replica, device, given, gave: seen.append(given[0])):
            sums = evaluate(parts)
        assert sums["accuracy"] == 22
        assert sums["loss"] == pytest.approx(22 * math.log1p(2 / math.e), rel=1e-12)
        assert sorted(seen, reverse=True) == [len(part) for part in torch.arange(22).chunk(count)]
        assert same(parts.backend.state_dict(), before)
        assert [module.training for module in model.modules()] == modes
        assert torch.equal(torch.get_rng_state(), generator)
        assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("count", [2, 3])
def test_evaluating_more_often_changes_no_weights(count: int) -> None:
    asked = words(12, model=made(PER_REPLICA["both"]), batch_size=6, epochs=3, backend=parallel(count))
    often, seldom = train(**asked, eval_every=6), train(**asked, eval_every=36)
    assert len(often.records) > len(seldom.records)
    assert same(often.model, seldom.model)


# State.

BACKENDS: dict[str, dict[str, Any]] = {
    "single": single(),
    "manual-2": manual(2),
    "parallel-1": parallel(1),
    "parallel-2": parallel(2),
    "parallel-3": parallel(3),
}


def test_the_state_has_the_plain_names_of_the_model() -> None:
    asked = words(6, model=made(PER_REPLICA["both"]), optimizer="adam")
    with assembled(experiment(backend=parallel(3), **asked)) as parts:
        take_steps(parts, 1)
        found = parts.backend.state_dict()
    model = convolution(norm=True)
    assert list(found["model"]) == list(model.state_dict())
    trained_names = [name for name, _ in model.named_parameters()]
    assert sorted(found["optimizer"]["state"]) == sorted(trained_names)
    assert [group["params"] for group in found["optimizer"]["param_groups"]] == [trained_names]


@pytest.mark.parametrize("optimizer", ["momentum", "adam", LBFGS])
@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in itertools.permutations(BACKENDS, 2) if "parallel" in "".join(pair)]
)
def test_any_backend_goes_on_from_its_state_and_it_from_any_others(before: str, after: str, optimizer: str) -> None:
    asked = words(7, model=made(convolution), optimizer=optimizer)
    expected = trained(2 * STEPS, backend=single(), **asked)
    with assembled(experiment(backend=BACKENDS[before], **asked)) as parts:
        take_steps(parts, STEPS)
        halfway = parts.backend.state_dict()
    with assembled(experiment(backend=BACKENDS[after], **asked)) as parts:
        parts.backend.load_state_dict(halfway)
        take_steps(parts, STEPS, start=STEPS)
        assert difference(state(parts), expected) <= TOLERANCE
    # Without the optimizer's state it would be others.
    with assembled(experiment(backend=BACKENDS[after], **asked)) as parts:
        fresh = parts.backend.state_dict()
        parts.backend.load_state_dict({**halfway, "optimizer": fresh["optimizer"]})
        take_steps(parts, STEPS, start=STEPS)
        assert difference(state(parts), expected) > 1e-6


@CONCURRENCY
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_it_goes_on_from_a_file_bit_for_bit_with_dropout_and_batch_norm(
    optimizer: str, count: int, concurrency: str
) -> None:
    asked = words(12, model=made(PER_REPLICA["both"]), optimizer=optimizer, batch_size=6)
    backend = parallel(count, concurrency)
    with assembled(experiment(backend=backend, **asked)) as parts:
        take_steps(parts, STEPS)
        file = io.BytesIO()
        torch.save(parts.backend.state_dict(), file)
        take_steps(parts, STEPS, start=STEPS)
        expected = parts.backend.state_dict()
    file.seek(0)
    with assembled(experiment(backend=backend, **asked)) as parts:
        # A run that has gone somewhere else; also its replicas are put back.
        take_steps(parts, 2)
        parts.backend.load_state_dict(torch.load(file, weights_only=True))
        take_steps(parts, STEPS, start=STEPS)
        assert same(parts.backend.state_dict(), expected)


@pytest.mark.parametrize(("before", "after"), [(manual(2), parallel(2)), (parallel(2), manual(2))])
def test_it_and_manual_take_over_each_others_dropout(before: dict[str, Any], after: dict[str, Any]) -> None:
    asked = words(6, model=made(PER_REPLICA["dropout"]), optimizer="momentum")
    expected = trained(2 * STEPS, backend=after, **asked)
    with assembled(experiment(backend=before, **asked)) as parts:
        take_steps(parts, STEPS)
        halfway = parts.backend.state_dict()
    with assembled(experiment(backend=after, **asked)) as parts:
        parts.backend.load_state_dict(halfway)
        take_steps(parts, STEPS, start=STEPS)
        assert difference(state(parts), expected) <= TOLERANCE


class Noisy(torch.optim.SGD):
    """Adds random numbers to the weights."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter += 0.1 * torch.randn_like(parameter)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_noise_of_an_optimizer_is_that_of_one_device_and_goes_on_from_a_state(count: int) -> None:
    asked = {"data": data(numbers(8)), "batch_size": 8, "dtype": "float64", "optimizer": Optimizer("noisy", Noisy)}
    asked["model"] = "mlp:hidden=[4],dropout=0.5"
    with assembled(experiment(backend=parallel(count), **asked)) as parts:
        take_steps(parts, STEPS)
        halfway = parts.backend.state_dict()
        take_steps(parts, STEPS, start=STEPS)
        expected = parts.backend.state_dict()
    with assembled(experiment(backend=parallel(count), **asked)) as parts:
        parts.backend.load_state_dict(halfway)
        take_steps(parts, STEPS, start=STEPS)
        assert same(parts.backend.state_dict(), expected)
    asked["model"] = "linear"
    on_one = trained(STEPS, backend=single(), **asked)
    assert difference(trained(STEPS, backend=parallel(count), **asked), on_one) <= 1e-12


def test_a_state_of_another_model_is_refused() -> None:
    with assembled(experiment(backend=parallel(2), **words(6, model=made(convolution)))) as parts:
        found = parts.backend.state_dict()
        prefixed = {f"module.{name}": value for name, value in found["model"].items()}
        with pytest.raises(RuntimeError, match=r"module\.convolution\.weight"):
            parts.backend.load_state_dict({**found, "model": prefixed})


# Where it works.


def request(threads: int = 4) -> Request:
    return Request(batch_size=10, threads=threads)


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be three GPUs: a plan does not touch them."""
    monkeypatch.setattr(devices, "available", lambda: list(CUDA))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_on_several_cpu_replicas_it_notes_that_it_is_the_algorithm_alone(count: int) -> None:
    plan = DataParallel(["cpu"] * count).plan(request())
    assert plan.devices == (CPU,) * count
    assert plan.threads == max(1, 4 // count)
    (note,) = plan.notes
    assert note.startswith("torch.nn.DataParallel does nothing without accelerators: this is its algorithm")
    assert note.endswith("on CPU replicas")


def test_on_one_cpu_replica_there_is_nothing_to_note() -> None:
    plan = DataParallel("cpu").plan(request())
    assert (plan.devices, plan.threads, plan.notes) == ((CPU,), 4, ())


@no_accelerator
@pytest.mark.parametrize(("asked", "count"), [("auto", 2), (1, 1), (3, 3), ("4", 4), ("cpu,cpu", 2)])
def test_without_accelerators_auto_is_two_cpu_replicas_and_a_number_that_many(asked: Any, count: int) -> None:
    assert DataParallel(asked).plan(request()).devices == (CPU,) * count


@no_accelerator
@pytest.mark.parametrize("asked", ["cuda:0", "cuda:0,cuda:1", "cpu,nonsense", "cpu:1"])
def test_devices_that_are_not_here_are_refused_with_those_that_are(asked: str) -> None:
    with pytest.raises(RequestError, match=r"no device .* here; there are: cpu$"):
        DataParallel(asked).plan(request())


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("auto", CUDA),
        (1, CUDA[:1]),
        (2, CUDA[:2]),
        ("cuda:1", CUDA[1:2]),
        ("cuda:2,cuda:0", [CUDA[2], CUDA[0]]),
    ],
)
def test_with_accelerators_auto_is_all_of_them_and_nothing_is_noted(asked: Any, found: list[torch.device]) -> None:
    plan = DataParallel(asked).plan(request())
    assert (list(plan.devices), plan.notes) == (found, ())


@pytest.mark.usefixtures("three_gpus")
def test_cpu_replicas_can_be_asked_for_where_there_are_accelerators() -> None:
    plan = DataParallel("cpu,cpu").plan(request())
    assert plan.devices == (CPU, CPU)
    assert plan.notes[0].endswith("on CPU replicas")


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("cuda:0,cpu", "takes devices of one kind, not cuda:0, cpu; --backend manual takes any"),
        ("cpu,cuda:1", "takes devices of one kind, not cpu, cuda:1; --backend manual takes any"),
        ("cuda:1,cuda:1", "takes a device once, not cuda:1, cuda:1"),
        ("cuda:2,cuda:0,cuda", "takes a device once, not cuda:2, cuda:0, cuda:0"),
        (4, "out of range: from 1 to 3 here"),
        ("cuda:3", "no device 'cuda:3' here; there are: cuda:0, cuda:1, cuda:2, cpu"),
    ],
)
def test_what_torchs_data_parallel_cannot_do_is_refused_with_the_reason(asked: Any, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        DataParallel(asked).plan(request())


def test_planning_starts_nothing() -> None:
    threads, active = torch.get_num_threads(), threading.active_count()
    DataParallel(["cpu"] * 50, "threads").plan(request(200))
    assert torch.get_num_threads() == threads
    assert threading.active_count() == active


def test_the_command_line_says_what_it_is_on_cpus(call: Callable[..., Any]) -> None:
    note = "note: torch.nn.DataParallel does nothing without accelerators"
    done = call("run", "--backend", "data-parallel:devices=[cpu,cpu]", "--steps", 2)
    assert done.code == 0
    assert note in done.err
    assert done.out.splitlines()[0].endswith("on [cpu, cpu]")
    alone = call("run", "--backend", "data-parallel:devices=cpu", "--steps", 2)
    assert alone.code == 0
    assert "DataParallel" not in alone.err


def test_the_command_line_lists_it_with_its_parameters(call: Callable[..., Any]) -> None:
    done = call("show", "backend", "data-parallel")
    assert done.code == 0
    assert all(word in done.out for word in ("torch.nn.DataParallel", "devices", "concurrency", "auto"))


# What a step says of itself.


# Used are 1, 2, 3, 3 (of 4: 3, 3 and 3 rows), 3 (of 4: 2, 2 and 1) and 1 replicas.
@pytest.mark.parametrize(
    ("rows", "count", "used"), [(7, 1, 1), (7, 2, 2), (7, 3, 3), (9, 4, 3), (5, 4, 3), (1, 3, 1), (2, 5, 2)]
)
def test_a_step_tells_the_bytes_of_parameters_and_buffers_out_and_gradients_back(
    rows: int, count: int, used: int
) -> None:
    # 2·1·3·3 + 2 weights of the convolution, 32·3 + 3 of the last layer, 2 + 2 of the normalisation, which has as many
    # running statistics and a count.
    parameters, buffers = 8 * (20 + 99 + 4), 8 * (2 + 2) + 8
    asked = words(rows, model=made(PER_REPLICA["batch normalisation"]))
    with assembled(experiment(backend=parallel(count), **asked)) as parts:
        results = take_steps(parts, 2)
        # Evaluating moves parameters too, which is not the steps'.
        evaluate(parts)
        results += take_steps(parts, 3)
    assert [result.moved for result in results] == [(used - 1) * (parameters + buffers + parameters)] * 5


def test_gradients_of_parameters_that_are_not_trained_or_used_are_not_moved() -> None:
    def build() -> nn.Module:
        model = convolution()
        model.convolution.requires_grad_(False)
        model.register_parameter("unused", nn.Parameter(torch.zeros(5)))
        return model

    with assembled(experiment(backend=parallel(3), **words(7, model=made(build)))) as parts:
        (result,) = take_steps(parts, 1)
    assert result.moved == 2 * 8 * ((20 + 99 + 5) + 99)


def test_a_step_that_evaluates_again_tells_the_bytes_of_all_evaluations() -> None:
    asked = {"data": data(numbers(7)), "batch_size": 7, "dtype": "float64"}
    with assembled(experiment(backend=parallel(3), optimizer="lbfgs:max_iter=3,tolerance_grad=0.0", **asked)) as parts:
        (result,) = take_steps(parts, 1)
    assert result.moved == 3 * 2 * (24 + 24)


def test_a_step_counts_moving_as_communication_and_not_as_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for backend in (single(), parallel(3)):
        with assembled(experiment(backend=backend, **words(7, model=made(convolution)))) as parts:
            # Past the steps that are timed to see whether threads are worth it.
            take_steps(parts, STEPS)
            with monkeypatch.context() as patched:
                # A clock that goes on by one whenever it is read.
                patched.setattr(time, "perf_counter", map(float, itertools.count()).__next__)
                found.append(take_steps(parts, 1)[0].seconds)
    alone, moving = found
    # It is read before and after replicating, and before and after adding up.
    more = {phase: moving[phase] - alone[phase] for phase in alone}
    assert more == {"compute": 2, "communicate": 2, "update": 0}


@CONCURRENCY
def test_a_step_gives_a_time_for_every_phase(concurrency: str) -> None:
    with assembled(experiment(backend=parallel(3, concurrency), **words(7, model=made(convolution)))) as parts:
        started = time.perf_counter()
        results = take_steps(parts, STEPS)
        passed = time.perf_counter() - started
    for result in results:
        assert result.seconds.keys() == {"compute", "communicate", "update"}
        assert all(seconds > 0 for seconds in result.seconds.values())
    assert sum(sum(result.seconds.values()) for result in results) <= passed


def test_a_step_tells_of_the_shapes_that_its_replicas_see() -> None:
    seen: list[Any] = []
    with assembled(experiment(backend=parallel(4), **words(9, model=made(convolution)))) as parts:
        with parts.backend.watched(lambda *passage: seen.append(passage)):
            take_steps(parts, 1)
        assert seen == [(replica, CPU, (3, 1, 6, 6), (3, 3)) for replica in range(3)]
        take_steps(parts, 1)
    assert len(seen) == 3


# Faults.


class Picky(nn.Module):
    """Fails on a shard that has a row of sevens; where, `fails` says."""

    fails = "forward"

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.output(inputs)
        if (inputs == 7).all(dim=1).any():
            if self.fails == "forward" or (self.fails == "evaluation" and not self.training):
                raise ValueError("no sevens, please")
            if self.fails == "backward":
                outputs.register_hook(self._refuse)
        return outputs

    @staticmethod
    def _refuse(gradient: Tensor) -> None:
        raise ValueError("no sevens, please")


class PickyBackward(Picky):
    fails = "backward"


class PickyEvaluation(Picky):
    fails = "evaluation"


def with_sevens(row: int) -> tuple[Tensor, Tensor]:
    inputs, targets = numbers(7)
    inputs[row] = 7
    return inputs, targets


@CONCURRENCY
@pytest.mark.parametrize("model", [Picky, PickyBackward])
@pytest.mark.parametrize(
    ("row", "named"),
    [(1, "replica 0 on cpu failed on its shard of 3 rows"), (6, "replica 2 on cpu failed on its shard of 1 row")],
)
def test_a_failure_names_the_replica_and_its_shard(
    row: int, named: str, model: type[nn.Module], concurrency: str
) -> None:
    asked = {"data": data(with_sevens(row)), "model": made(model), "batch_size": 7, "dtype": "float64"}
    others = torch.tensor([one for one in range(7) if one != row])
    with assembled(experiment(backend=parallel(3, concurrency), **asked)) as parts:
        feed(parts, *[others] * STEPS)
        with pytest.raises(ShardError, match=rf"^{named}: ValueError: no sevens, please$"):
            feed(parts, torch.arange(7))
        # The backend is as usable as before.
        before = state(parts)
        feed(parts, others)
        assert not same(state(parts), before)


@CONCURRENCY
def test_a_failure_in_an_evaluation_names_the_replica_and_leaves_modes_alone(concurrency: str) -> None:
    asked = {"data": data(with_sevens(5)), "model": made(PickyEvaluation), "batch_size": 7, "dtype": "float64"}
    with assembled(experiment(backend=parallel(3, concurrency), **asked)) as parts:
        take_steps(parts, STEPS)
        with pytest.raises(ShardError, match=r"^replica 1 on cpu failed on its shard of 3 rows: ValueError: no sevens"):
            evaluate(parts)
        assert replicas(parts)[0].model.training
        take_steps(parts, 1)


def test_nothing_runs_on_when_a_failure_has_ended_the_run() -> None:
    asked = {"data": data(with_sevens(6)), "model": made(Picky), "batch_size": 7, "dtype": "float64"}
    working = []

    def fail() -> None:
        with assembled(experiment(backend=parallel(3, "threads"), **asked)) as parts:
            feed(parts, *[torch.arange(6)] * STEPS)
            working.append(len(crew()))
            feed(parts, torch.arange(7))

    with pytest.raises(ShardError, match="replica 2"):
        fail()
    # Six rows are two each, which took the three of them.
    assert working == [3]
    assert crew() == []


class Flattening(nn.Module):
    """Gives its outputs in a shape that has lost the rows."""

    def __init__(self, shape: str) -> None:
        super().__init__()
        self.output, self.shape = nn.Linear(2, 1), shape

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.output(inputs)
        if self.shape == "scalar":
            return outputs.mean()
        return {"none": outputs.mean(dim=0, keepdim=True), "first": outputs.T}[self.shape]


@pytest.mark.parametrize(("shape", "said"), [("scalar", r"\[\]"), ("none", r"\[1, 1\]"), ("first", r"\[1, 3\]")])
def test_outputs_without_a_row_for_each_input_are_an_error_that_names_their_shape(shape: str, said: str) -> None:
    asked = {"data": data(numbers(9)), "model": made(functools.partial(Flattening, shape)), "batch_size": 9}
    with (
        assembled(experiment(backend=parallel(3), **asked)) as parts,
        pytest.raises(
            ShardError,
            match=rf"^replica 0 on cpu failed on its shard of 3 rows: .*outputs of shape {said} have no row for each",
        ),
    ):
        take_steps(parts, 1)


def test_a_single_row_for_batch_normalisation_is_an_error_that_says_what_to_choose() -> None:
    asked = {"data": data(numbers(7)), "model": "mlp:hidden=[4],batch_norm=true", "batch_size": 7}
    with (
        assembled(experiment(backend=parallel(3), **asked)) as parts,
        pytest.raises(ShardError, match=r"^replica 2 on cpu failed on its shard of 1 row: .*choose --batch-size and"),
    ):
        take_steps(parts, 1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_outputs_that_no_parameter_has_made_are_an_error_as_on_one_device(count: int) -> None:
    class Detached(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            with torch.no_grad():
                return super().forward(inputs)

    asked = {"data": data(numbers(7)), "model": made(lambda: Detached(2, 1)), "batch_size": 7}
    with (
        assembled(experiment(backend=parallel(count), **asked)) as parts,
        pytest.raises(ShardError, match="does not require grad"),
    ):
        take_steps(parts, 1)


def test_threads_end_with_the_backend() -> None:
    with assembled(experiment(backend=parallel(3, "threads"), **words(7, model=made(convolution)))) as parts:
        take_steps(parts, STEPS)
        assert len(crew()) == 3
    assert crew() == []


# Memory.


class Node(torch.autograd.Function):
    """A step of the graph that holds on to something."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, held: list[Any]) -> Tensor:
        ctx.token = torch.Generator()
        held.append(weakref.ref(ctx.token))
        return outputs.clone()

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> Any:
        return gradients, None


@CONCURRENCY
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("optimizer", ["sgd", LBFGS])
def test_the_graph_and_the_outputs_of_a_step_are_let_go_with_it(optimizer: str, count: int, concurrency: str) -> None:
    held: list[Any] = []

    class Holding(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            outputs = super().forward(inputs)
            held.append(weakref.ref(outputs))
            return Node.apply(outputs, held) if torch.is_grad_enabled() else outputs

    asked = {"data": data(numbers(6)), "model": made(lambda: Holding(2, 1)), "batch_size": 6, "optimizer": optimizer}
    with assembled(experiment(backend=parallel(count, concurrency), **asked)) as parts:
        gc.disable()
        try:
            for _ in range(STEPS):
                result = feed(parts, torch.arange(6))[0]
                assert len(held) >= 2 * count
                assert [one() for one in held if one() is not None] == []
                assert not result.loss.requires_grad
                held.clear()
            evaluate(parts)
            assert len(held) == count
            assert [one() for one in held if one() is not None] == []
        finally:
            gc.enable()


# On accelerators it is torch.nn.DataParallel itself.


def gpus(*names: str) -> Any:
    """A list of devices, for machines that have them."""
    count = 1 + max(int(name.removeprefix("cuda:")) for name in names)
    skip = pytest.mark.skipif(torch.cuda.device_count() < count, reason=f"needs {count} CUDA devices")
    return pytest.param(list(names), marks=[pytest.mark.gpu, skip], id=",".join(names))


ONE_AND_MORE = [gpus("cuda:0"), gpus("cuda:0", "cuda:1"), gpus("cuda:1", "cuda:0"), gpus("cuda:0", "cuda:2")]
TWO_AND_MORE = ONE_AND_MORE[1:]


def on(names: list[str], backend: str = "data-parallel") -> dict[str, Any]:
    return {"name": backend, "devices": names}


@pytest.mark.parametrize("names", ONE_AND_MORE)
def test_on_gpus_torchs_own_data_parallel_spreads_the_model(names: list[str]) -> None:
    with assembled(experiment(backend=on(names), **words(7, model=made(convolution)))) as parts:
        (first,) = replicas(parts)
        assert type(first.forward) is nn.DataParallel
        assert first.forward.module is first.model
        assert first.forward.device_ids == [torch.device(name).index for name in names]
        assert parts.plan.notes == ()
        assert {str(parameter.device) for parameter in first.model.parameters()} == {names[0]}


@pytest.mark.parametrize("names", ONE_AND_MORE)
@pytest.mark.parametrize("optimizer", ["momentum", "adam", LBFGS])
@pytest.mark.parametrize("rows", [10, 7, 1])
def test_gpus_equal_one_cpu(rows: int, optimizer: str, names: list[str]) -> None:
    asked = words(rows, model=made(convolution), optimizer=optimizer)
    with assembled(experiment(backend=single(), **asked)) as parts:
        before = state(parts)
        take_steps(parts, STEPS)
        expected, measured = state(parts), evaluate(parts)
    with assembled(experiment(backend=on(names), **asked)) as parts:
        take_steps(parts, STEPS)
        assert difference(state(parts), expected) <= TOLERANCE
        assert evaluate(parts) == pytest.approx(measured, rel=1e-9)
    assert difference(expected, before) > 1e-3


@pytest.mark.parametrize("names", ONE_AND_MORE)
def test_gpus_go_on_from_a_state_bit_for_bit_with_dropout_and_batch_norm(names: list[str]) -> None:
    asked = {"data": data(numbers(12)), "batch_size": 12, "dtype": "float64", "optimizer": "adam"}
    asked["model"] = "mlp:hidden=[8],dropout=0.5,batch_norm=true"
    with assembled(experiment(backend=on(names), **asked)) as parts:
        take_steps(parts, STEPS)
        halfway = parts.backend.state_dict()
        take_steps(parts, STEPS, start=STEPS)
        expected = parts.backend.state_dict()
    assert halfway["streams"]["devices"] == ["cuda"] * len(names)
    assert {value.device for value in halfway["model"].values()} == {CPU}
    with assembled(experiment(backend=on(names), **asked)) as parts:
        parts.backend.load_state_dict(halfway)
        take_steps(parts, STEPS, start=STEPS)
        assert same(parts.backend.state_dict(), expected)


@pytest.mark.parametrize("names", ONE_AND_MORE)
def test_cpus_go_on_from_a_state_of_gpus(names: list[str]) -> None:
    asked = words(7, model=made(convolution), optimizer="adam")
    expected = trained(2 * STEPS, backend=single(), **asked)
    with assembled(experiment(backend=on(names), **asked)) as parts:
        take_steps(parts, STEPS)
        halfway = parts.backend.state_dict()
    with assembled(experiment(backend=parallel(3), **asked)) as parts:
        parts.backend.load_state_dict(halfway)
        take_steps(parts, STEPS, start=STEPS)
        assert difference(state(parts), expected) <= TOLERANCE


@pytest.mark.parametrize("names", TWO_AND_MORE)
@pytest.mark.parametrize("model", PER_REPLICA)
def test_on_gpus_batch_norm_and_dropout_are_those_of_manual(model: str, names: list[str]) -> None:
    asked = words(7, model=made(PER_REPLICA[model]))
    expected = trained(STEPS, backend=on(names, "manual"), **asked)
    assert difference(trained(STEPS, backend=on(names), **asked), expected) <= TOLERANCE


@pytest.mark.parametrize("names", TWO_AND_MORE)
def test_on_gpus_each_sees_its_part_and_an_evaluation_counts_each_row_once(names: list[str]) -> None:
    seen: list[Any] = []
    with (
        assembled(experiment(backend=on(names), **words(7, model=made(convolution)))) as parts,
        parts.backend.watched(lambda *passage: seen.append(passage)),
    ):
        take_steps(parts, 1)
        evaluate(parts)
    parts_of = [(0, torch.device(names[0]), (4, 1, 6, 6), (4, 3)), (1, torch.device(names[1]), (3, 1, 6, 6), (3, 3))]
    assert sorted(seen, key=str) == sorted(parts_of * 2, key=str)
