"""What the engine's tests share: experiments of components made on the spot, and training step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset as TorchDataset

from playground import Data, Dataset, Experiment, Registry
from playground.components import Component
from playground.engine.assembly import assembled
from playground.experiment import Choice
from playground.registry import Registration
from playground.runs.execution import execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from playground import Run, StepResult
    from playground.engine.assembly import Parts
    from playground.engine.replicas import Replica

BOOK = ("sgd", "momentum", "adagrad", "rmsprop", "adam")
"""The optimizers that the book trains on airfoil."""

LEAST = 0.24169
"""MSE/2 of the least squares solution on airfoil, as the book prepares it."""

ZERO = 0.49326
"""MSE/2 on airfoil with all weights zero."""

REGISTRY = Registry()


def experiment(**words: Any) -> Experiment:
    """An experiment in the words of `Experiment.of`; a component may also be given as an object."""
    made = {kind: one for kind, one in words.items() if isinstance(one, Component)}
    spoken = {word: value for word, value in words.items() if word not in made}
    choices = {
        kind: Choice.of(Registration(one, REGISTRY.plugins[0], one.name), dict[str, Any]()) for kind, one in made.items()
    }
    return replace(Experiment.of(REGISTRY, spoken), **choices)


def run(**words: Any) -> Run:
    """The run of an experiment, of which nothing is written."""
    return execute(experiment(**words), REGISTRY, None)


def take_steps(parts: Parts, steps: int, start: int = 0) -> list[StepResult]:
    """Take the steps from number `start` on, in the order of rows of the training loop."""
    epochs = range((start + steps - 1) // len(parts.order.epoch(0)) + 1)
    batches = [rows for epoch in epochs for rows in parts.order.epoch(epoch)][start : start + steps]
    fed = parts.feeds["train"](parts.backend.shard(rows) for rows in batches)
    return [
        parts.backend.step(shards, rows.numel(), parts.objective) for rows, shards in zip(batches, fed, strict=True)
    ]


def trained(steps: int = 20, **words: Any) -> dict[str, Tensor]:
    """The parameters and buffers after some steps."""
    with assembled(experiment(**words)) as parts:
        take_steps(parts, steps)
        state: dict[str, Tensor] = parts.backend.state_dict()["model"]
        return state


def replicas(parts: Parts) -> list[Replica]:
    """The replicas of a backend that has them in this process."""
    found: list[Replica] = parts.backend.replicas  # type: ignore[attr-defined]
    return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two models' states are equal, bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of a number in two models' states."""
    assert one.keys() == other.keys()
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


def losses(run: Run) -> list[float | None]:
    """The curve of a run."""
    return [record["train_loss"] for record in run.history]


class Rows(TorchDataset[tuple[Any, Any]]):
    """Rows in memory as a map-style data set, each passed through `change`."""

    def __init__(
        self, inputs: Tensor, targets: Tensor, change: Callable[[Tensor], Tensor] = lambda row: row
    ) -> None:
        self._inputs, self._targets, self._change = inputs, targets, change

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self._change(self._inputs[index]), self._targets[index]


def numbers(rows: int, columns: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs (rows, columns) and targets (rows, 1) of a linear model with noise, float64."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return inputs, inputs.sum(dim=1, keepdim=True) + 0.5 + noise


def data(train: Any, test: Any = None, **fields: Any) -> Data:
    """A data component that gives these rows."""
    return Data("made-here", lambda: Dataset(train, test, **fields))
