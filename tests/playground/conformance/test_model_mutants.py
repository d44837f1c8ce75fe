"""The kit tests itself: each model here is wrong in one way, and fails the check that is meant for it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from playground import Model, Registry
from playground.conformance import check

REGISTRY = Registry()


class Right(nn.Module):
    """Two layers; the mutants change one thing of them."""

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(torch.Size(inputs).numel(), 5)
        self.out = nn.Linear(5, outputs)

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = self.out(self.hidden(rows.flatten(1)).tanh())
        return result


class OneOutputTooMany(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs + 1)


class SumsOverRows(Right):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).sum(dim=0)


class HalfPrecision(Right):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).float()


class Infinite(Right):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) / 0


class Detached(Right):
    """Its first layer is cut off from the gradient."""

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = self.out(self.hidden(rows.flatten(1)).tanh().detach())
        return result


class Unused(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.spare = nn.Linear(2, 2)


class Idle(Right):
    """Its second layer is multiplied away."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) * 0 + self.hidden(rows.flatten(1))[:, :3]


class HidesItsWeights(Right):
    """Keeps a scale where no state dict sees it."""

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.scale = torch.rand(1)

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) * self.scale.double()


class DrawsElsewhere(Right):
    """Draws its first weight from Python's generator."""

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.constant_(self.out.bias, random.random())


class DropsInEvaluation(Right):
    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(rows), 0.5, training=True)


class CountsEvaluations(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        self.seen += len(rows)
        return super().forward(rows)


class NormalisesInEvaluation(Right):
    def forward(self, rows: Tensor) -> Tensor:
        outputs = super().forward(rows)
        return outputs - outputs.mean(dim=0)


class SharesOnCopy(Right):
    def __deepcopy__(self, memo: dict[int, Any]) -> SharesOnCopy:
        twin = SharesOnCopy((self.hidden.in_features,), self.out.out_features).double()
        twin.hidden, twin.out = self.hidden, self.out
        return twin


class FreshOnCopy(Right):
    def __deepcopy__(self, memo: dict[int, Any]) -> FreshOnCopy:
        return FreshOnCopy((self.hidden.in_features,), self.out.out_features).double()


class ForOtherOutputs(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, 3)


class ForOtherInputs(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__((6,), outputs)


class TripsOverOtherOutputs(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, {3: 3}[outputs])


class SeedsItself(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        torch.manual_seed(0)
        super().__init__(inputs, outputs)


class DrawsFromItsOwn(Right):
    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.hidden.weight, generator=torch.Generator().manual_seed(3))


def takes_nothing(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    raise ValueError(f"no rows of {inputs}")


class OffsetInEvaluation(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows if self.training else rows + 1


def not_a_model(inputs: tuple[int, ...], outputs: int) -> Any:
    return torch.zeros(3)


def failures(factory: Any) -> dict[str, str]:
    report = check("model", Model("mutant", factory), REGISTRY)
    return {one.check.name: one.evidence for one in report.outcomes if one.verdict == "fail"}


def test_the_right_one_passes() -> None:
    report = check("model", Model("right", Right), REGISTRY)
    assert report.passed
    assert {one.check.name for one in report.outcomes if one.verdict != "pass"} == {"is-affine-where-it-says-so"}


def test_a_last_layer_may_start_at_zero() -> None:
    class ZeroAtFirst(Right):
        def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
            super().__init__(inputs, outputs)
            nn.init.zeros_(self.out.weight)

    assert failures(ZeroAtFirst) == {}


def test_a_model_that_says_it_is_affine_is_held_to_it() -> None:
    found = check("model", Model("curved", Right, affine=True), REGISTRY)
    evidence = {one.check.name: one.evidence for one in found.outcomes if one.verdict == "fail"}
    assert evidence.keys() == {"is-affine-where-it-says-so"}
    assert "differ by" in evidence["is-affine-where-it-says-so"]
    (straight,) = [
        one for one in check("model", "linear", REGISTRY).outcomes if one.check.name == "is-affine-where-it-says-so"
    ]
    assert straight.verdict == "pass"


@pytest.mark.parametrize(
    ("factory", "name", "evidence"),
    [
        (OneOutputTooMany, "gives-a-row-of-outputs-for-each-row", "for 1 rows it gives (1, 4), not (1, 3)"),
        (SumsOverRows, "gives-a-row-of-outputs-for-each-row", "for 1 rows it gives (3,), not (1, 3)"),
        (HalfPrecision, "gives-a-row-of-outputs-for-each-row", "in float64 it gives torch.float32"),
        (Infinite, "gives-a-row-of-outputs-for-each-row", "not finite"),
        (ForOtherOutputs, "gives-a-row-of-outputs-for-each-row", "shape (6,) and 5 outputs it gives (2, 3) for 2 rows"),
        (ForOtherInputs, "gives-a-row-of-outputs-for-each-row", "shape (4,) and 3 outputs it does not take such rows"),
        (TripsOverOtherOutputs, "gives-a-row-of-outputs-for-each-row", "cannot be built: KeyError: 5"),
        (SeedsItself, "its-weights-depend-on-the-seed-alone", "building it seeds torch's default generator"),
        (DrawsFromItsOwn, "its-weights-depend-on-the-seed-alone", "hidden.weight is drawn, and is the same under"),
        (takes_nothing, "is-a-model", "no rows of"),
        (not_a_model, "is-a-model", "Tensor"),
        (Detached, "the-gradient-reaches-every-parameter", "hidden.weight has no gradient"),
        (Unused, "the-gradient-reaches-every-parameter", "spare.weight has no gradient"),
        (Idle, "the-gradient-reaches-every-parameter", "the gradient of out.weight is zero"),
        (HidesItsWeights, "goes-on-from-its-state", "after its state is loaded the outputs differ by"),
        (DrawsElsewhere, "its-weights-depend-on-the-seed-alone", "out.bias differs"),
        (DropsInEvaluation, "evaluation-changes-nothing", "two evaluations differ by"),
        (CountsEvaluations, "evaluation-changes-nothing", "an evaluation changes seen"),
        (NormalisesInEvaluation, "in-evaluation-a-row-stands-for-itself", "with the rows beside it"),
        (SharesOnCopy, "a-copy-is-equal-and-shares-nothing", "a copy shares hidden.weight"),
        (FreshOnCopy, "a-copy-is-equal-and-shares-nothing", "the outputs of a copy differ by"),
    ],
)
def test_a_mutant_fails_the_check_that_is_meant_for_it(factory: Any, name: str, evidence: str) -> None:
    found = failures(factory)
    assert name in found
    assert evidence in found[name]


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.Dropout(0.5), "draws random numbers (dropout); rows stand for themselves"),
        (nn.BatchNorm1d(3), "draws no random numbers; looks across rows (batch statistics)"),
        (nn.Identity(), "draws no random numbers; rows stand for themselves"),
        (
            OffsetInEvaluation(),
            "draws no random numbers; rows stand for themselves; gives other outputs in eval mode all the same",
        ),
    ],
)
def test_what_training_depends_on_is_said(layer: nn.Module, said: str) -> None:
    def build(inputs: tuple[int, ...], outputs: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(inputs).numel(), outputs), layer)

    (found,) = [
        one
        for one in check("model", Model("model", build), REGISTRY).outcomes
        if one.check.name == "says-what-training-depends-on"
    ]
    assert found.evidence == said


def test_a_model_of_tokens_is_given_whole_numbers() -> None:
    def build(inputs: tuple[int, ...], outputs: int) -> nn.Module:
        return nn.Sequential(nn.EmbeddingBag(10, 4), nn.Linear(4, outputs))

    report = check("model", Model("tokens", build), REGISTRY)
    assert report.passed
    evidence = {one.check.name: one.evidence for one in report.outcomes}
    assert evidence["gives-a-row-of-outputs-for-each-row"] == "[6] of int64 → [3]"


def test_a_fault_of_a_model_of_numbers_is_shown_as_it_is() -> None:
    class Fails(nn.Linear):
        def forward(self, rows: Any) -> Any:
            raise ArithmeticError("a fault of its own")

    def build(inputs: tuple[int, ...], outputs: int) -> nn.Module:
        return Fails(inputs[0], outputs)

    assert failures(build) == {"is-a-model": "ArithmeticError: a fault of its own"}
