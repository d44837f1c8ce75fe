"""What the engine's tests share: experiments of components made on the spot, and training step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import Dataset as TorchDataset

from playground import Backend, Data, Dataset, Experiment, Model, Optimizer, Registry
from playground.engine.assembly import assembled
from playground.engine.training import Training
from playground.experiment import Choice
from playground.registry import Registration
from playground.runs.execution import execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from playground import Run, StepResult
    from playground.engine.assembly import Parts
    from playground.engine.replicas import Replica
    from playground.engine.training import Record

BOOK = ("sgd", "momentum", "adagrad", "rmsprop", "adam")
"""The optimizers that the book trains on airfoil."""

LEAST = 0.24169
"""MSE/2 of the least squares solution on airfoil, prepared the book's way."""

ZERO = 0.49326
"""MSE/2 on airfoil, prepared the book's way, with all weights zero."""

REGISTRY = Registry()


def experiment(**words: Any) -> Experiment:
    """An experiment in the words of `Experiment.of`; a component may also be given as an object."""
    made = {kind: one for kind, one in words.items() if isinstance(one, Data | Model | Optimizer | Backend)}
    spoken = {word: value for word, value in words.items() if word not in made}
    choices: dict[str, Any] = {
        kind: Choice.of(Registration(one, REGISTRY.plugins[0], one.name), {}) for kind, one in made.items()
    }
    return replace(Experiment.of(REGISTRY, spoken), **choices)


def run(out: Path | None = None, **words: Any) -> Run:
    """The run of an experiment; nothing is written unless `out` says where."""
    return execute(experiment(**words), REGISTRY, out)


class Trained(NamedTuple):
    """A training that has come to its end."""

    records: list[Record]
    model: dict[str, Tensor]
    training: Training

    @property
    def losses(self) -> list[float | None]:
        return [record["train_loss"] for record in self.records]


def train(**words: Any) -> Trained:
    """Train an experiment to its end."""
    asked = experiment(**words)
    with assembled(asked) as parts:
        training = Training(parts, asked)
        records = list(training.records())
        return Trained(records, parts.backend.state_dict()["model"], training)


def take_steps(parts: Parts, steps: int, start: int = 0) -> list[StepResult]:
    """Take the steps from number `start` on, in the order of rows that the training loop has."""
    epochs = range((start + steps - 1) // len(parts.order.epoch(0)) + 1)
    batches = [rows for epoch in epochs for rows in parts.order.epoch(epoch)][start : start + steps]
    fed = parts.feeds["train"](parts.backend.shard(rows) for rows in batches)
    return [
        parts.backend.step(shards, rows.numel(), parts.objective) for rows, shards in zip(batches, fed, strict=True)
    ]


def evaluate(parts: Parts) -> dict[str, float]:
    """The sums over the training rows, evaluated at once."""
    rows = torch.arange(parts.dataset.rows)
    (shards,) = parts.feeds["train"]([parts.backend.shard(rows)])
    return parts.backend.evaluate(shards, parts.objective)


def trained(steps: int = 20, **words: Any) -> dict[str, Tensor]:
    """The parameters and buffers of the model after some steps."""
    with assembled(experiment(**words)) as parts:
        take_steps(parts, steps)
        state: dict[str, Tensor] = parts.backend.state_dict()["model"]
        return state


def replicas(parts: Parts) -> list[Replica]:
    """The replicas of a backend that has them in this process."""
    found: list[Replica] = parts.backend.replicas
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two states, nests of dicts and lists with tensors in them, are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of a number in two states of a model."""
    assert one.keys() == other.keys()
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


class Rows(TorchDataset[tuple[Any, Any]]):
    """Rows in memory as a map-style data set; each input goes through `change`."""

    def __init__(self, inputs: Tensor, targets: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> None:
        self._inputs, self._targets, self._change = inputs, targets, change

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self._inputs[index]
        return row if self._change is None else self._change(row), self._targets[index]


def numbers(rows: int, columns: int = 2) -> tuple[Tensor, Tensor]:
    """Inputs (rows, columns) and targets (rows, 1) of a linear model with noise, float64."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return inputs, inputs.sum(dim=1, keepdim=True) + 0.5 + 0.1 * noise


def data(train: Any, test: Any = None, **fields: Any) -> Data:
    """A data component that gives these rows."""
    return Data("made-here", lambda: Dataset(train, test, **fields))
