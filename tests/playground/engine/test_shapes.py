"""The shapes that go through a model: what is heard, when, and that listening changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from playground import Backend, Model, ShardError
from playground.engine.assembly import assembled
from playground.engine.shapes import BatchShapes, Passage, Shapes
from playground.runs.execution import execute

from .workbench import REGISTRY, Rows, data, experiment, numbers, run, same
from .workbench import replicas as replicas_of

if TYPE_CHECKING:
    from playground import Run

SINGLE = "single:devices=cpu"
BACKENDS = (SINGLE, "manual:devices=2", "manual:devices=3,reduce=ring", "data-parallel:devices=3")
ON_TWO = ("manual:devices=2", "manual:devices=2,concurrency=threads", "data-parallel:devices=2")


def traced(**words: Any) -> Run:
    return execute(experiment(**words), REGISTRY, None, trace_shapes=True)


def shown(ended: Run) -> list[str]:
    return [line for batch in ended.shapes for line in batch.lines()]


@pytest.mark.parametrize("backend", ON_TWO)
def test_the_first_batch_of_each_size_is_shown_with_what_every_replica_saw_and_gave(backend: str) -> None:
    # Steps 1 to 4 have ten rows, step 5 has five, and then it begins again. By step 5 threads may be at work.
    ended = traced(data="airfoil:rows=45", backend=backend, epochs=3)
    assert shown(ended) == [
        "step 1, a batch of 10:",
        "  replica 0 on cpu: input [5, 5] → output [5, 1]",
        "  replica 1 on cpu: input [5, 5] → output [5, 1]",
        "  outside: input [10, 5] → output [10, 1]",
        "step 5, a batch of 5:",
        "  replica 0 on cpu: input [3, 5] → output [3, 1]",
        "  replica 1 on cpu: input [2, 5] → output [2, 1]",
        "  outside: input [5, 5] → output [5, 1]",
    ]


def test_one_device_sees_what_the_outside_sees() -> None:
    ended = traced(data="airfoil:rows=20", backend=SINGLE, epochs=1)
    assert ended.shapes == [BatchShapes(1, (Passage(0, "cpu", (10, 5), (10, 1)),), (), (10, 5), (10, 1))]


@pytest.mark.parametrize(
    ("backend", "seen", "idle"),
    [
        ("manual:devices=4", [1, 1, 0, 0], (2, 3)),
        ("data-parallel:devices=4", [1, 1, 0, 0], (2, 3)),
        # torch.chunk cuts nine rows for four into 3, 3 and 3.
        ("data-parallel:devices=4", [3, 3, 3, 0], (3,)),
    ],
)
def test_a_replica_that_gets_no_rows_is_said_to_be_idle(backend: str, seen: list[int], idle: tuple[int, ...]) -> None:
    rows = sum(seen)
    (batch,) = traced(data=data(numbers(rows)), backend=backend, batch_size=rows, epochs=2).shapes
    assert batch.passages == tuple(
        Passage(replica, "cpu", (count, 2), (count, 1)) for replica, count in enumerate(seen) if count
    )
    assert batch.idle == idle
    assert (batch.input, batch.output) == ((rows, 2), (rows, 1))
    assert batch.lines()[-1 - len(idle) : -1] == [f"  replica {replica}: no rows" for replica in idle]


@pytest.mark.parametrize("style", ["memory", "map"])
@pytest.mark.parametrize("backend", ["manual:devices=3", "data-parallel:devices=3"])
def test_rows_of_any_shape_are_shown(backend: str, style: str) -> None:
    rows = (torch.zeros(8, 2, 3, 4), torch.arange(8) % 3)
    made = data(rows if style == "memory" else Rows(*rows), task="classification", classes=3)
    (batch,) = traced(data=made, backend=backend, batch_size=8, epochs=1).shapes
    assert [(one.input, one.output) for one in batch.passages] == [
        ((count, 2, 3, 4), (count, 3)) for count in (3, 3, 2)
    ]
    assert (batch.input, batch.output) == ((8, 2, 3, 4), (8, 3))


@pytest.mark.parametrize("backend", [SINGLE, *ON_TWO])
def test_passes_that_an_optimizer_repeats_within_its_step_are_shown_once(backend: str) -> None:
    passes = 0

    class Counting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            nonlocal passes
            passes += self.training
            return super().forward(input)

    model = Model("counting", lambda inputs, outputs: Counting(inputs[0], outputs))
    words = {"data": data(numbers(10)), "model": model, "batch_size": 10, "epochs": 1, "backend": backend}
    (batch,) = traced(optimizer="lbfgs:max_iter=3,tolerance_grad=0.0,tolerance_change=0.0", **words).shapes
    replicas = 1 if backend == SINGLE else 2
    assert passes >= 3 * replicas
    assert [passage.replica for passage in batch.passages] == list(range(replicas))
    assert batch.output == (10, 1)


class FailingAt(nn.Linear):
    """A linear model that fails where it is to train on so many rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(2, 1)
        self.rows = rows

    def forward(self, input: Tensor) -> Tensor:
        if self.training and len(input) == self.rows:
            raise ArithmeticError("on purpose")
        return super().forward(input)


@pytest.mark.parametrize("backend", ON_TWO)
@pytest.mark.parametrize(
    ("rows", "through"),
    # Of the last batch's five rows one replica has three, the other two.
    [(3, {1}), (2, {0})],
)
def test_what_was_heard_is_kept_where_the_step_fails(backend: str, rows: int, through: set[int]) -> None:
    model = Model("failing", lambda inputs, outputs: FailingAt(rows))
    ended = traced(data=data(numbers(45)), model=model, backend=backend, batch_size=10)
    assert (ended.status, ended.steps) == ("failed", 4)
    first, last = ended.shapes
    assert (first.output, first.idle) == ((10, 1), ())
    assert (last.step, last.input) == (5, (5, 2))
    # Those that run before the one that fails, or at the same time, may have come through.
    assert {passage.replica for passage in last.passages} <= through
    # The one that failed had rows, and the whole gave nothing.
    assert (last.idle, last.output) == ((), None)
    assert last.lines()[-1] == "  outside: input [5, 2] → output ?"
    assert not any("no rows" in line for line in last.lines())


def test_the_replica_before_the_one_that_fails_is_shown() -> None:
    model = Model("failing", lambda inputs, outputs: FailingAt(2))
    words = {"data": data(numbers(5)), "model": model, "batch_size": 5}
    ended = traced(backend="manual:devices=2,concurrency=turns", **words)
    assert shown(ended) == [
        "step 1, a batch of 5:",
        "  replica 0 on cpu: input [3, 2] → output [3, 1]",
        "  outside: input [5, 2] → output ?",
    ]


def test_where_a_step_fails_on_an_idle_replicas_neighbour_nothing_is_said_of_either() -> None:
    model = Model("failing", lambda inputs, outputs: FailingAt(1))
    ended = traced(data=data(numbers(1)), model=model, batch_size=1, backend="manual:devices=2")
    assert shown(ended) == ["step 1, a batch of 1:", "  outside: input [1, 2] → output ?"]


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs:lr=0.01,max_iter=2"])
@pytest.mark.parametrize("backend", [*BACKENDS, "manual:devices=2,concurrency=threads"])
def test_listening_changes_no_number_of_the_training(backend: str, optimizer: str) -> None:
    # The last batch's six rows leave every replica two, which batch normalisation needs.
    words = {"data": "airfoil:rows=96", "model": "mlp:hidden=[8],dropout=0.5,batch_norm=true", "epochs": 2}
    asked = experiment(backend=backend, optimizer=optimizer, **words)
    with_it, without = (
        execute(asked, REGISTRY, None, trace_shapes=tracing, keep_parameters=True) for tracing in (True, False)
    )
    assert with_it.status == without.status == "done"
    assert [{**one, "seconds": 0} for one in with_it.history] == [{**one, "seconds": 0} for one in without.history]
    assert same(with_it.parameters, without.parameters)
    assert [batch.input[0] for batch in with_it.shapes] == [10, 6]
    assert without.shapes == []


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("backend", ["manual:devices=2", "data-parallel:devices=2"])
def test_no_hook_stays_on_a_model_that_was_listened_to(backend: str, fails: bool) -> None:
    model = Model("failing", lambda inputs, outputs: FailingAt(3 if fails else 99))
    with assembled(experiment(data=data(numbers(6)), model=model, backend=backend, batch_size=6)) as parts:
        shapes = Shapes()
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(6))])
        models = [one.model for one in replicas_of(parts)]
        try:
            with shapes.watching(parts, 1, shards):
                assert all(one._forward_hooks for one in models)
                parts.backend.step(shards, 6, parts.objective)
        except ShardError:
            assert fails
        assert not any(one._forward_hooks for one in models)
        assert len(shapes.batches) == 1


def test_evaluations_are_not_shown() -> None:
    # Of 25 rows none but an evaluation sees all, and the test rows are seen in no other.
    made = data(numbers(25), numbers(4))
    ended = traced(data=made, backend="manual:devices=2", batch_size=10, epochs=2, eval_every=5)
    assert [batch.input[0] for batch in ended.shapes] == [10, 5]


def test_a_backend_that_tells_of_no_pass_shows_the_outside_alone() -> None:
    from playground_plugins.backends.manual import Manual

    from playground import ParallelBackend

    class Untold(Manual):
        watched = ParallelBackend.watched

    ended = traced(data=data(numbers(10)), backend=Backend("untold", Untold), batch_size=10, epochs=1)
    assert shown(ended) == ["step 1, a batch of 10:", "  outside: input [10, 2] → output ?"]
    assert ended.shapes[0].idle == ()


def test_shapes_are_not_traced_unless_it_is_asked_for() -> None:
    ended = run(data=data(numbers(10)), epochs=1)
    assert (ended.shapes, ended.summary()["shapes"]) == ([], [])


def test_a_batch_that_is_more_than_there_are_rows_has_the_size_that_it_has() -> None:
    (batch,) = traced(data=data(numbers(6)), batch_size=64, epochs=3, backend=SINGLE).shapes
    assert batch.lines()[0] == "step 1, a batch of 6:"


def test_micro_batches_of_one_shape_are_all_shown() -> None:
    shapes = Shapes()
    with assembled(experiment(backend="manual:devices=1", data=data(numbers(8)), batch_size=8)) as parts:
        (((inputs, targets),),) = next(parts.feeds["train"]([parts.backend.shard(torch.arange(8))]))
        shards = [[(inputs[:4], targets[:4]), (inputs[4:], targets[4:])]]
        with shapes.watching(parts, 1, shards):
            parts.backend.step(shards, 8, parts.objective)
    (batch,) = shapes.batches
    assert batch.passages == (Passage(0, "cpu", (4, 2), (4, 1)),) * 2
    assert (batch.input, batch.output) == ((8, 2), (8, 1))
