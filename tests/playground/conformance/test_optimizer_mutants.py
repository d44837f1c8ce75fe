"""The kit tests itself: each optimizer here is wrong in one way, and fails the check that is meant for it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from playground import Optimizer, Registry, RequestError
from playground.conformance import check
from playground.experiment import Choice

REGISTRY = Registry()


class Right(torch.optim.Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1), with decoupled weight decay; the mutants change one line of it."""

    def __init__(
        self, params: Any, lr: float = 0.01, betas: tuple[float, float] = (0.9, 0.999), weight_decay: float = 0.0
    ) -> None:
        if not lr > 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError("out of range")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def moments(self, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        if not state:
            state |= {"step": 0, "m": torch.zeros_like(parameter), "v": torch.zeros_like(parameter)}
        return state

    def shrink(self, parameter: Tensor, group: dict[str, Any]) -> None:
        parameter.mul_(1 - group["lr"] * group["weight_decay"])

    def correction(self, beta: float, step: int) -> float:
        return float(1 - beta**step)

    def gradient(self, parameter: Tensor) -> Tensor | None:
        return parameter.grad

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                gradient = self.gradient(parameter)
                if gradient is None:
                    continue
                state = self.moments(parameter)
                state["step"] += 1
                self.shrink(parameter, group)
                state["m"].lerp_(gradient, 1 - beta1)
                state["v"].lerp_(gradient.square(), 1 - beta2)
                m = state["m"] / self.correction(beta1, state["step"])
                v = state["v"] / self.correction(beta2, state["step"])
                parameter.sub_(self.rate(group) * m / (v.sqrt() + 1e-8))
        return loss

    def rate(self, group: dict[str, Any]) -> float:
        return float(group["lr"])


class IgnoresAParameter(Right):
    def shrink(self, parameter: Tensor, group: dict[str, Any]) -> None:
        pass


class TakesAnything(Right):
    def __init__(
        self, params: Any, lr: float = 0.01, betas: tuple[float, float] = (0.9, 0.999), weight_decay: float = 0.0
    ) -> None:
        torch.optim.Optimizer.__init__(self, params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})


class ForgetsState(Right):
    """Keeps its moments beside `state`, where no state_dict finds them."""

    def moments(self, parameter: Tensor) -> dict[str, Any]:
        kept = self.__dict__.setdefault("kept", {})
        if parameter not in kept:
            kept[parameter] = {"step": 0, "m": torch.zeros_like(parameter), "v": torch.zeros_like(parameter)}
        found: dict[str, Any] = kept[parameter]
        return found


class OffByOne(Right):
    def correction(self, beta: float, step: int) -> float:
        return float(1 - beta ** (step + 1))


class Upwards(Right):
    def rate(self, group: dict[str, Any]) -> float:
        return -float(group["lr"])


class StopsShort(Right):
    """Goes downhill for ten steps and then rests."""

    def rate(self, group: dict[str, Any]) -> float:
        self.taken = getattr(self, "taken", 0) + 1
        return 1e-4 if self.taken <= 20 else 0.0


class OneRateForAll(Right):
    def rate(self, group: dict[str, Any]) -> float:
        return float(self.defaults["lr"])


class DecaysWhatHasNoGradient(Right):
    def gradient(self, parameter: Tensor) -> Tensor | None:
        return torch.full_like(parameter, 0.1) if parameter.grad is None else parameter.grad


class Random(Right):
    def rate(self, group: dict[str, Any]) -> float:
        return float(group["lr"]) * random.uniform(0.9, 1.1)


class HalfPrecision(Right):
    def moments(self, parameter: Tensor) -> dict[str, Any]:
        state = super().moments(parameter)
        state["kept"] = state["v"].float()
        return state


class Deaf(Right):
    def step(self, closure: Any = None) -> Any:
        return super().step()


class Blind(Right):
    """Calls its closure as it is called, without gradients."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = closure() if closure is not None else None
        super().step()
        return loss


class WrongForeach(Right):
    def __init__(self, params: Any, lr: float = 0.01, foreach: bool | None = None) -> None:
        super().__init__(params, lr)
        self.foreach = foreach

    def rate(self, group: dict[str, Any]) -> float:
        return float(group["lr"]) * (1.01 if self.foreach else 1.0)


class WrongForeachWithAFlag(Right):
    """Right in both ways, but for one flag."""

    def __init__(self, params: Any, lr: float = 0.01, foreach: bool | None = None, maximize: bool = False) -> None:
        super().__init__(params, lr)
        self.foreach, self.maximize = foreach, maximize

    def rate(self, group: dict[str, Any]) -> float:
        return float(group["lr"]) * (-1 if self.maximize and not self.foreach else 1)


class LooksAtItsThread(Right):
    """Draws its rate from a stream that is not the experiment's, so that replicas drift apart."""

    count = 0

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, lr)
        LooksAtItsThread.count += 1
        self.number = LooksAtItsThread.count

    def rate(self, group: dict[str, Any]) -> float:
        return float(group["lr"]) * (1 + 0.001 * (self.number % 7))


class KeepsItsFirstRate(Right):
    """Reads its rates when it is built."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, lr)
        self.rates = {id(group["params"][0]): group["lr"] for group in self.param_groups}

    def rate(self, group: dict[str, Any]) -> float:
        return float(self.rates[id(group["params"][0])])


class TakesNoClosure(Right):
    def step(self) -> Any:  # type: ignore[override]
        return super().step()


class Slips(Right):
    def __init__(self, params: Any, lr: float = 0.01) -> None:
        if lr < 0:
            raise NameError("a slip of the pen")
        super().__init__(params, lr)


class TripsOverGroups(Right):
    def __init__(self, params: Any, lr: float = 0.01) -> None:
        params = list(params)
        if isinstance(params[0], dict):
            raise KeyError("groups")
        super().__init__(params, lr)


class Raises(Right):
    def rate(self, group: dict[str, Any]) -> float:
        raise AttributeError("a slip of the pen")


class WarmsUp(Right):
    """Its first steps are smaller, and every 50 steps it rests."""

    def __init__(self, params: Any, lr: float = 0.01, warmup: int = 0, every: int = 50) -> None:
        super().__init__(params, lr)
        self.defaults |= {"warmup": warmup, "every": every}
        for group in self.param_groups:
            group |= {"warmup": warmup, "every": every, "taken": 0}

    def rate(self, group: dict[str, Any]) -> float:
        group["taken"] += 1
        step = (group["taken"] + 1) // 2
        rest = 0.0 if step % group["every"] == 0 else 1.0
        return float(group["lr"]) * rest * (min(1, step / group["warmup"]) if group["warmup"] else 1.0)


def not_an_optimizer(params: Any, lr: float = 0.01) -> nn.Module:
    return nn.Linear(1, 1)


def failures(factory: Any, **fields: Any) -> dict[str, str]:
    report = check("optimizer", Optimizer("mutant", factory, **fields), REGISTRY)
    return {one.check.name: one.evidence for one in report.outcomes if one.verdict == "fail"}


def test_the_right_one_passes_and_equals_torch_s() -> None:
    report = check("optimizer", Optimizer("right", Right, reference="torch.optim:AdamW"), REGISTRY)
    assert {one.check.name: one.verdict for one in report.outcomes if one.verdict != "pass"} == {
        "ways-of-computing-agree": "n/a"
    }
    assert report.passed
    (reference,) = [one for one in report.outcomes if one.check.name == "equals-its-reference"]
    assert reference.evidence == "torch.optim:AdamW, with lr, betas, weight_decay"


@pytest.mark.parametrize(
    ("factory", "name", "evidence"),
    [
        (not_an_optimizer, "is-an-optimizer", "Linear"),
        (TakesNoClosure, "is-an-optimizer", "its step takes no closure: write step(self, closure=None)"),
        (Raises, "is-an-optimizer", "AttributeError: a slip of the pen"),
        (KeepsItsFirstRate, "the-lr-of-its-groups-counts", "changes none of its steps"),
        (Slips, "invalid-values-are-refused", "lr=-1.0 ends in NameError: a slip of the pen"),
        (TripsOverGroups, "parameter-groups-have-their-own-lr", "KeyError: 'groups'"),
        (Upwards, "lowers-a-convex-loss", "the loss goes from"),
        (StopsShort, "gets-near-the-optimum", "of the first loss"),
        (IgnoresAParameter, "every-parameter-reaches-it", "weight_decay: 0.0 → 0.1 changes neither"),
        (
            TakesAnything,
            "invalid-values-are-refused",
            "it takes lr=-1.0; it takes weight_decay=-1.0; it takes betas=(1.5, 1.5)",
        ),
        (ForgetsState, "goes-on-from-its-state", "come to differ by"),
        (Random, "is-deterministic", "two equal trainings differ by"),
        (OneRateForAll, "parameter-groups-have-their-own-lr", "changes none of its updates"),
        (DecaysWhatHasNoGradient, "parameters-without-gradient-are-left-alone", "without a gradient moves by"),
        (WrongForeach, "ways-of-computing-agree", "with its defaults, foreach=true differs from a loop by"),
        (WrongForeachWithAFlag, "ways-of-computing-agree", "with maximize=True, foreach=true differs from a loop by"),
        (HalfPrecision, "keeps-float64", "'kept' in its state is torch.float32"),
        (Deaf, "calls-its-closure", "does not call the closure"),
        (Blind, "calls-its-closure", "gradients disabled"),
        (LooksAtItsThread, "is-the-same-on-every-exact-backend", "differs from one device's by"),
    ],
)
def test_a_mutant_fails_the_check_that_is_meant_for_it(factory: Any, name: str, evidence: str) -> None:
    found = failures(factory)
    assert name in found
    assert evidence in found[name]


@pytest.mark.parametrize("factory", [not_an_optimizer, TakesNoClosure, Raises])
def test_where_it_is_no_optimizer_nothing_else_is_looked_at(factory: Any) -> None:
    assert failures(factory).keys() == {"is-an-optimizer"}


def test_what_is_handed_on_keeps_the_value_that_its_class_says() -> None:
    class Nesterov(torch.optim.SGD):
        def __init__(self, params: Any, lr: float = 0.05, **options: Any) -> None:
            super().__init__(params, lr, **{"momentum": 0.9, "nesterov": True, **options})

    report = check("optimizer", Optimizer("nesterov", Nesterov), REGISTRY)
    assert report.passed
    assert report.choice.parameters == {"lr": 0.05}
    with pytest.raises(RequestError, match="has no parameter 'momentun'; did you mean 'momentum'"):
        Choice.of(report.choice.registration, {"momentun": 0.3})


def test_parameters_that_count_steps_are_given_small_numbers() -> None:
    assert "every-parameter-reaches-it" not in failures(WarmsUp)


@pytest.mark.parametrize("factory", [OffByOne, IgnoresAParameter])
def test_what_is_off_by_one_differs_from_its_reference(factory: Any) -> None:
    found = failures(factory, reference="torch.optim:AdamW")
    assert "differs from torch.optim:AdamW by" in found["equals-its-reference"]


def test_a_bias_correction_that_is_off_by_one_is_seen_by_nothing_but_the_reference() -> None:
    assert failures(OffByOne) == {}
