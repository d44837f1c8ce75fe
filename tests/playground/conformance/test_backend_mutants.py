"""The kit tests itself: each backend here is wrong in one way, and fails the check that is meant for it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

from playground import Backend, Registry, ReplicaBackend
from playground.conformance import check

REGISTRY = Registry()


class Right(ReplicaBackend):
    """Adds up gradients and hands the sum back."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        first, *others = gradients
        for other in others:
            for total, gradient in zip(first, other, strict=True):
                total.add_(gradient)
        for other in others:
            for total, gradient in zip(first, other, strict=True):
                gradient.copy_(total)
        return 0


class SkipsTheReduction(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return 0


class AveragesMeans(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        super().reduce(gradients)
        for own in gradients:
            for gradient in own:
                gradient.div_(len(gradients))
        return 0


class ForgetsTheHandBack(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        first, *others = gradients
        for other in others:
            for total, gradient in zip(first, other, strict=True):
                total.add_(gradient)
        return 0


class DropsTheLastRow(Right):
    def shard(self, rows: Tensor) -> list[Tensor]:
        return super().shard(rows[: len(rows) // len(self.replicas) * len(self.replicas)])


class SeesRowsTwice(Right):
    """Pads the shards of an evaluation to one length."""

    def evaluate(self, shards: Any, objective: Any) -> dict[str, float]:
        most = max(len(shard[0][0]) for shard in shards)
        first = shards[0][0]
        padded = [
            [tuple(torch.cat([part, whole[: most - len(part)]]) for part, whole in zip(shard[0], first, strict=True))]
            for shard in shards
        ]
        return super().evaluate(padded, objective)  # type: ignore[arg-type]


class PrefixesNames(Right):
    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "model": {f"module.{name}": value for name, value in state["model"].items()}}


class ForgetsTheOptimizer(Right):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        for replica in self.replicas:
            replica.model.load_state_dict(state["model"])


class TakesOneMicroBatch(Right):
    def step(self, shards: Any, count: int, objective: Any) -> Any:
        return super().step([shard[:1] for shard in shards], count, objective)


class EvaluatesInTraining(Right):
    """Leaves models in eval mode after an evaluation."""

    def evaluate(self, shards: Any, objective: Any) -> dict[str, float]:
        sums = super().evaluate(shards, objective)
        for replica in self.replicas:
            replica.model.eval()
        return sums


class OneDropoutForAll(Right):
    """Every replica draws the dropout of the first."""

    def prepare(self, recipe: Any) -> None:
        super().prepare(recipe)
        streams = self.team.streams()
        self.team.restore({**streams, "dropout": [streams["dropout"][0]] * len(streams["dropout"])})


class SwallowsFailures(Right):
    def step(self, shards: Any, count: int, objective: Any) -> Any:
        with contextlib.suppress(Exception):
            self.last = super().step(shards, count, objective)
        return self.last


class LeavesAThread(Right):
    def close(self, error: BaseException | None = None) -> None:
        super().close(error)
        thread = threading.Thread(target=threading.Event().wait, args=(3,), name="forgotten")
        thread.start()


class Random(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        super().reduce(gradients)
        noise = torch.rand((), generator=torch.Generator().manual_seed(torch.seed() % 2**31))
        for own in gradients:
            own[0].mul_(1 + 1e-6 * float(noise))
        return 0


class NeverMeets(Right):
    """Says that it is not exact, and never brings its replicas together."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for own in gradients:
            for gradient in own:
                gradient.mul_(len(gradients))
        return 0


class Stands(NeverMeets):
    def mix(self, parameters: list[list[Tensor]]) -> int:
        for own in parameters:
            for one in own:
                one.zero_()
        return 0


class LoadsTheFirstAlone(NeverMeets):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.replicas[0].model.load_state_dict(state["model"])


def failures(factory: Any, exact: bool = True) -> dict[str, str]:
    report = check("backend", Backend("mutant", factory, exact=exact), REGISTRY)
    return {one.check.name: one.evidence for one in report.outcomes if one.verdict == "fail"}


def test_the_right_one_passes() -> None:
    assert failures(Right) == {}


@pytest.mark.parametrize(
    ("factory", "name", "evidence"),
    [
        (SkipsTheReduction, "equals-one-device", "2 replicas, batches of 6 that divide: "),
        (SkipsTheReduction, "replicas-are-equal-after-each-step", "after step 1 on 2 replicas the fingerprints are"),
        (AveragesMeans, "equals-one-device", "2 replicas, batches of 6 that divide: "),
        (AveragesMeans, "equals-one-device-with-every-optimizer", "on 3 replicas"),
        (AveragesMeans, "its-loss-curve-is-that-of-one-device", "on 2 replicas the curve is"),
        (ForgetsTheHandBack, "replicas-are-equal-after-each-step", "after step 1 on 2 replicas"),
        (DropsTheLastRow, "equals-one-device", "2 replicas, batches of 7 that do not divide: "),
        (DropsTheLastRow, "an-evaluation-sees-each-row-once", "on 2 replicas 22 rows are counted as "),
        (SeesRowsTwice, "an-evaluation-sees-each-row-once", "on 2 replicas 22 rows are counted as 2"),
        (PrefixesNames, "its-state-has-the-model-s-names", "module.0.weight"),
        (ForgetsTheOptimizer, "goes-on-from-any-backend-s-state", "from its own state"),
        (TakesOneMicroBatch, "micro-batches-add-up-to-a-batch", "where shards come in two pieces"),
        (EvaluatesInTraining, "an-evaluation-changes-nothing", "evaluations change"),
        (SwallowsFailures, "a-failure-inside-a-step-surfaces", "passes unseen"),
        (LeavesAThread, "a-failure-inside-a-step-surfaces", "threads are left: forgotten"),
        (Random, "is-bit-equal-from-run-to-run", "from run to run"),
        (OneDropoutForAll, "dropout-and-batch-statistics-are-those-of-replicas", "with dropout on 2 replicas"),
    ],
)
def test_a_mutant_fails_the_check_that_is_meant_for_it(factory: Any, name: str, evidence: str) -> None:
    found = failures(factory)
    assert name in found
    assert evidence in found[name]


@pytest.mark.parametrize(
    ("factory", "name", "evidence"),
    [
        (NeverMeets, "replicas-come-to-agree", "differences go from"),
        (Stands, "converges", "the loss goes from"),
        (LoadsTheFirstAlone, "replicas-agree-when-they-take-a-state", "the fingerprints are"),
    ],
)
def test_a_mutant_that_says_it_is_not_exact_is_held_to_the_rest(factory: Any, name: str, evidence: str) -> None:
    found = failures(factory, exact=False)
    assert name in found
    assert evidence in found[name]


def test_what_is_not_exact_equals_one_device_on_one_replica() -> None:
    class Shrinks(NeverMeets):
        def step(self, shards: Any, count: int, objective: Any) -> Any:
            result = super().step(shards, count, objective)
            with torch.no_grad():
                for parameter in self.replicas[0].parameters:
                    parameter.mul_(0.999)
            return result

    assert "on one replica: " in failures(Shrinks, exact=False)["equals-one-device-on-one-replica"]
