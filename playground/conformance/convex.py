"""A convex problem with a known optimum, and the way that an optimizer takes on it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from playground.conformance.problems import numbers
from playground.engine import randomness
from playground.experiment import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

SHAPES = ((4, 3), (2, 5))
"""Of the parameters; matrices, since some optimizers take nothing else."""


class Problem:
    """½ Σ h (w − w*)² over a few matrices: convex, with curvatures from ½ to 2 and its optimum, 0, at w*."""

    def __init__(self, dtypes: Sequence[torch.dtype] = (torch.float64, torch.float64)) -> None:
        each = list(zip(range(len(SHAPES)), SHAPES, dtypes, strict=True))
        self.parameters = [nn.Parameter(numbers(*shape, seed=number).to(dtype)) for number, shape, dtype in each]
        self._optima = [numbers(*shape, seed=10 + number).to(dtype) for number, shape, dtype in each]
        self._curvatures = [
            torch.linspace(0.5, 2.0, math.prod(shape), dtype=dtype).view(shape) for _, shape, dtype in each
        ]

    def loss(self) -> Tensor:
        terms = zip(self.parameters, self._optima, self._curvatures, strict=True)
        return torch.stack([(0.5 * h * (w - best).square()).sum().double() for w, best, h in terms]).sum()

    def value(self) -> float:
        """The loss as a number."""
        return float(self.loss().detach())

    def step(self, optimizer: Optimizer) -> None:
        """One step."""

        def evaluate() -> Tensor:
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        evaluate()
        optimizer.step(evaluate)  # type: ignore[arg-type]

    def values(self) -> list[Tensor]:
        return [one.detach().clone() for one in self.parameters]


def made(choice: Choice, parameters: Any, **changed: Any) -> Optimizer:
    """The optimizer over parameters, with some of its own parameters changed. Raises RequestError."""
    return cast("Optimizer", Choice.of(choice.registration, {**choice.asked, **changed}).build(parameters))


def path(
    choice: Choice, dtypes: Sequence[torch.dtype] = (torch.float64, torch.float64), **changed: Any
) -> tuple[list[Tensor], dict[str, Any]]:
    """Where the parameters are after each of 20 steps, one after the other, and the state at the end."""
    with randomness.drawing(0, "optimizer"):
        problem = Problem(dtypes)
        optimizer = made(choice, problem.parameters, **changed)
        found = []
        for _ in range(20):
            problem.step(optimizer)
            found += problem.values()
        return found, optimizer.state_dict()["state"]


def apart(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
