"""The ledger: what the steps of a training took, and that nothing is counted twice or lost."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from playground import Backend, Model, ReplicaBackend, StepResult
from playground.engine.assembly import assembled
from playground.engine.ledger import PHASES, Ledger
from playground.engine.training import Training
from playground.runs.execution import execute

from .workbench import REGISTRY, data, experiment, numbers, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from playground import Objective, Shard

LBFGS = "lbfgs:lr=0.1,max_iter=3"
BACKENDS = (
    "single:devices=cpu",
    "manual:devices=2",
    "manual:devices=4,reduce=ring",
    "manual:devices=2,concurrency=threads",
    "data-parallel:devices=1",
    "data-parallel:devices=2",
    "data-parallel:devices=3,concurrency=threads",
)


def kept(warm_up: int = 0, **words: Any) -> tuple[Ledger, Training]:
    """The ledger of a training that has come to its end."""
    asked = experiment(**words)
    with assembled(asked) as parts:
        training = Training(parts, asked, warm_up=warm_up)
        for _ in training.records():
            pass
        return training.ledger, training


def test_a_ledger_adds_up_what_it_is_told() -> None:
    ledger = Ledger()
    ledger.feed(0.5)
    ledger.step(10, 48, {"compute": 1.0, "update": 0.25})
    ledger.feed(0.25)
    ledger.step(7, 48, {"compute": 2.0, "communicate": 0.125})
    ledger.seconds = 4.5
    assert (ledger.steps, ledger.samples, ledger.moved) == (2, 17, 96)
    assert ledger.phases == {"feed": 0.75, "compute": 3.0, "communicate": 0.125, "update": 0.25}
    # In milliseconds, and a step: half of it.
    assert ledger.ms_per_step == {"feed": 375, "compute": 1500, "communicate": 62.5, "update": 125, "other": 187.5}
    assert (ledger.bytes_per_step, ledger.samples_per_sec) == (48, 17 / 4.5)


def test_a_phase_that_only_one_backend_has_is_kept_beside_the_others() -> None:
    ledger = Ledger()
    ledger.step(1, 0, {"compress": 0.5})
    ledger.step(1, 0, {"compress": 0.25, "compute": 0.25})
    ledger.seconds = 1.0
    assert ledger.ms_per_step == {
        "feed": 0,
        "compute": 125,
        "communicate": 0,
        "update": 0,
        "compress": 375,
        "other": 0,
    }


def test_without_a_step_there_is_nothing_to_tell() -> None:
    assert Ledger().ms_per_step == {}
    assert (Ledger().bytes_per_step, Ledger().samples_per_sec) == (None, None)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", LBFGS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_second_of_a_training_is_in_one_phase(backend: str, optimizer: str) -> None:
    words = {"data": "airfoil:rows=95", "batch_size": 10, "epochs": 2, "eval_every": 20, "optimizer": optimizer}
    ledger, training = kept(backend=backend, **words)
    assert (ledger.steps, ledger.samples) == (20, 190)
    assert set(ledger.phases) == set(PHASES)
    assert all(seconds >= 0 for seconds in ledger.phases.values())
    # What takes time on any machine took some.
    assert all(ledger.phases[phase] > 0 for phase in ("feed", "compute", "update"))
    assert sum(ledger.phases.values()) <= ledger.seconds == training.seconds
    assert list(ledger.ms_per_step) == [*PHASES, "other"]
    assert ledger.ms_per_step["other"] >= 0
    assert sum(ledger.ms_per_step.values()) == pytest.approx(1e3 * ledger.seconds / 20, rel=1e-9)


class Slow(ReplicaBackend):
    """A backend whose time is told by a clock of its own, each phase in seconds of its own."""

    said: Mapping[str, float] = {"compute": 1.0, "communicate": 0.5, "update": 0.25, "waiting": 0.125}

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for own in zip(*gradients, strict=True):
            total = torch.stack(list(own)).sum(dim=0)
            for part in own:
                part.copy_(total)
        return 0

    def step(self, shards: Sequence[Shard], count: int, objective: Objective) -> StepResult:
        return super().step(shards, count, objective)._replace(moved=count, seconds=self.said)


class Silent(Slow):
    """A backend that says nothing of its time, as one written before there was a ledger."""

    said: Mapping[str, float] = {}


def test_what_a_backend_says_of_its_time_is_what_the_ledger_holds() -> None:
    ledger, _ = kept(backend=Backend("slow", Slow), data=data(numbers(20)), batch_size=7, epochs=2)
    assert {name: value for name, value in ledger.phases.items() if name != "feed"} == {
        name: 6 * value for name, value in Slow.said.items()
    }
    # The rows of 7, 7 and 6, twice.
    assert (ledger.steps, ledger.samples, ledger.moved) == (6, 40, 40)


def test_a_backend_that_says_nothing_of_its_time_leaves_it_to_no_phase() -> None:
    ended = run(backend=Backend("silent", Silent), data=data(numbers(20)), batch_size=7, epochs=2)
    assert ended.status == "done"
    time = ended.summary()["ms_per_step"]
    assert [time[phase] for phase in ("compute", "communicate", "update")] == [0, 0, 0]
    assert time["other"] > 0
    assert time["feed"] + time["other"] == pytest.approx(1e3 * ended.seconds / 6, rel=1e-9)


@pytest.mark.parametrize("optimizer", ["sgd", LBFGS])
@pytest.mark.parametrize("backend", ["manual:devices=2", "data-parallel:devices=2"])
def test_what_goes_between_replicas_is_told_apart_from_what_they_compute(backend: str, optimizer: str) -> None:
    ledger, _ = kept(backend=backend, optimizer=optimizer, epochs=1, data="airfoil:rows=100")
    assert ledger.phases["communicate"] > 0
    alone, _ = kept(backend="single:devices=cpu", optimizer=optimizer, epochs=1, data="airfoil:rows=100")
    assert (alone.moved, ledger.moved > 0) == (0, True)


@pytest.mark.parametrize(
    ("warm_up", "steps", "samples"),
    # 30 rows in batches of 7 are five steps an epoch, the last of two rows.
    [(0, 12, 74), (1, 11, 67), (5, 7, 44), (11, 1, 7), (12, 0, 0)],
)
def test_steps_of_the_warm_up_are_left_out(warm_up: int, steps: int, samples: int) -> None:
    words = {"data": data(numbers(30)), "batch_size": 7, "steps": 12, "backend": Backend("slow", Slow)}
    ledger, training = kept(warm_up, **words)
    # Slow says that each row moves a byte, and that each step computes for a second.
    assert (ledger.steps, ledger.samples, ledger.moved) == (steps, samples, samples)
    assert ledger.phases["compute"] == steps
    assert 0 <= ledger.seconds <= training.seconds
    assert (training.step, training.samples) == (12, 74)


def test_a_warm_up_changes_no_number_of_the_training() -> None:
    asked = experiment(data="airfoil:rows=100", model="mlp:dropout=0.5", backend="manual:devices=2", steps=20)
    cold, warm = execute(asked, REGISTRY, None), execute(asked, REGISTRY, None, warm_up=5)
    assert [{**one, "seconds": 0} for one in warm.history] == [{**one, "seconds": 0} for one in cold.history]
    assert (warm.steps, warm.samples, cold.timed.steps, warm.timed.steps) == (20, 200, 20, 15)


def test_speed_is_that_of_the_steps_after_the_warm_up() -> None:
    asked = experiment(data=data(numbers(30)), batch_size=7, steps=12, backend="single:devices=cpu")
    ended = execute(asked, REGISTRY, None, warm_up=5)
    assert ended.samples_per_sec == 44 / ended.timed.seconds
    # An epoch has 30 rows.
    assert ended.sec_per_epoch == pytest.approx(30 * ended.timed.seconds / 44, rel=1e-12)
    assert ended.timed.seconds < ended.seconds


def test_a_ledger_that_was_read_does_not_grow_with_the_training() -> None:
    asked = experiment(data=data(numbers(30)), batch_size=10, epochs=2, eval_every=10, backend=Backend("slow", Slow))
    with assembled(asked) as parts:
        training = Training(parts, asked)
        read = [training.ledger for _ in training.records()]
    assert [ledger.steps for ledger in read] == list(range(7))
    assert [ledger.phases["compute"] for ledger in read] == list(range(7))
    seconds = [ledger.seconds for ledger in read]
    assert seconds[0] == 0
    assert all(one < other for one, other in itertools.pairwise(seconds))


def test_evaluation_is_in_no_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock on which an evaluation takes an hour, and nothing else any time that would show beside it.
    late, clock = 0.0, time.perf_counter

    class Hourly(torch.nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            nonlocal late
            late += 0 if self.training else 3600
            return super().forward(input)

    monkeypatch.setattr("time.perf_counter", lambda: clock() + late)
    ended = run(
        model=Model("hourly", lambda inputs, outputs: Hourly(inputs[0], outputs)),
        data=data(numbers(20), numbers(8)),
        epochs=2,
        eval_every=10,
        backend="manual:devices=2",
    )
    assert late >= 5 * 3600
    assert sum(ended.timed.phases.values()) <= ended.timed.seconds < 3600
