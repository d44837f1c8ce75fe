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


class PrintsAlike(Right):
    def fingerprint(self) -> list[str]:
        return ["0123456789abcdef" for _ in self.replicas]


class KeepsItsRate(Right):
    def scale_lr(self, factor: float) -> None:
        pass


class ScalesAgainAndAgain(Right):
    """Scales the rate that there is, and not the initial one."""

    def scale_lr(self, factor: float) -> None:
        for replica in self.replicas:
            for group in replica.optimizer.param_groups:
                group["lr"] *= factor


class SaysAnotherRate(Right):
    lr = 42.0  # type: ignore[assignment]


class KnowsTheLossAlone(Right):
    def evaluate(self, shards: Any, objective: Any) -> dict[str, float]:
        sums = super().evaluate(shards, objective)
        return {name: value if name in ("loss", "rows") else 0.0 for name, value in sums.items()}


class AddsUpThree(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        super().reduce(gradients[:3])
        for own in gradients[3:]:
            for total, gradient in zip(gradients[0], own, strict=True):
                gradient.copy_(total)
        return 0


class DoublesInFloat32(Right):
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        super().reduce(gradients)
        for own in gradients:
            for gradient in own:
                gradient.mul_(2 if gradient.dtype == torch.float32 else 1)
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


def test_a_right_one_passes_on_more_replicas_than_a_batch_has_rows_for() -> None:
    report = check("backend", "manual:devices=13", REGISTRY)
    assert report.passed
    evidence = {one.check.name: one.evidence for one in report.outcomes}
    assert evidence["equals-one-device"] == "on 1, 2, 3, 5, 13 replicas, to 1e-10"


@pytest.mark.parametrize("devices", ["0", "[cpu, foo]"])
def test_devices_that_are_refused_do_not_pass(devices: str) -> None:
    report = check("backend", f"manual:devices={devices}", REGISTRY)
    assert [(one.check.name, one.verdict) for one in report.outcomes] == [
        ("is-loaded", "pass"),
        ("is-a-backend", "fail"),
    ]
    assert devices.strip("[]").split(", ")[-1] in report.outcomes[-1].evidence


def test_what_a_constructor_hands_on_is_a_parameter() -> None:
    class Every(Right):
        def __init__(self, every: int = 2, **options: Any) -> None:
            super().__init__(**options)
            self.every = every

    report = check("backend", Backend("every", Every), REGISTRY)
    evidence = {one.check.name: one.evidence for one in report.outcomes}
    assert evidence["is-loaded"] == "every, devices, concurrency"
    assert evidence["equals-one-device"] == "on 1, 2, 3, 5 replicas, to 1e-10"


def test_a_constructor_need_not_call_that_of_its_base() -> None:
    class Own(Right):
        def __init__(self, every: int = 2) -> None:
            self.every = every

    report = check("backend", Backend("own", Own), REGISTRY)
    assert report.passed
    assert {one.check.name: one.evidence for one in report.outcomes}["is-a-backend"] == "Own, on 2 replicas"


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
        (PrintsAlike, "replicas-are-equal-after-each-step", "0123456789abcdef, as before it"),
        (KeepsItsRate, "its-learning-rate-can-be-scaled", "at 0.5 times the initial rate, lr is 0.05, not 0.025"),
        (ScalesAgainAndAgain, "its-learning-rate-can-be-scaled", "lr is 0.00625, not 0.025"),
        (SaysAnotherRate, "its-learning-rate-can-be-scaled", "lr is 42.0, not 0.05"),
        (KnowsTheLossAlone, "an-evaluation-sees-each-row-once", "the sum of 'accuracy' is 0, not "),
        (AddsUpThree, "equals-one-device", "5 replicas, batches of 6 that divide: "),
        (DoublesInFloat32, "equals-one-device", "2 replicas, in float32: "),
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
