"""The small experiments that components are checked in, made of components that the kit brings itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from playground import __version__
from playground.components import Backend, Component, Data, Model, Optimizer
from playground.discovery import Plugin
from playground.engine.assembly import assembled
from playground.engine.dataset import Dataset
from playground.engine.replicas import ReplicaBackend
from playground.experiment import Choice, Experiment
from playground.registry import HOME, Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playground.engine.assembly import Parts

TOLERANCE = 1e-10
"""In float64. Sums of some ten numbers near 1 in another order differ by some 1e-15; a few steps magnify that."""

ROWS = 22
"""Not a multiple of 2 + 1 replicas, nor of the batches of 7 that are taken of them."""

BATCH = 7

STEPS = 5

OWN = Plugin("conformance", "playground.conformance", HOME, __version__)


class Reference(ReplicaBackend):
    """The oracle: replicas whose gradients are added up in the plainest way."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for column in zip(*gradients, strict=True):
            total = torch.stack([one.to(column[0].device) for one in column]).sum(dim=0)
            for one in column:
                one.copy_(total)
        return 0


def choose(component: Component, **asked: Any) -> Choice:
    """A component of the kit's as an experiment holds it."""
    return Choice.of(Registration(component, OWN, component.name), asked)


def numbers(rows: int, columns: int, seed: int = 0) -> Tensor:
    """Normal numbers of shape (rows, columns), float64."""
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def regression(rows: int = ROWS) -> Dataset:
    """Inputs of 3 columns, targets of 2, of a linear model with noise."""
    inputs = numbers(rows, 3)
    return Dataset((inputs, inputs @ numbers(3, 2, 1) + 0.1 * numbers(rows, 2, 2)))


def classes(rows: int = ROWS) -> Dataset:
    """Inputs of 3 columns and 3 classes: which of them is the largest."""
    inputs = numbers(rows, 3)
    return Dataset((inputs, inputs.argmax(dim=1)), task="classification", classes=3)


def reference(count: int = 1) -> Choice:
    """The oracle on so many replicas."""
    return choose(Backend("reference", Reference), devices=["cpu"] * count, concurrency="turns")


def matrix(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """A single matrix: some optimizers take nothing else."""
    return nn.Linear(inputs[0], outputs, bias=False)


def net(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.Tanh(), nn.Linear(4, outputs))


def dropping(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.Dropout(0.5), nn.Linear(4, outputs))


def normalising(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.BatchNorm1d(4), nn.Linear(4, outputs))


HEAVY_BALL = Optimizer("heavy-ball", "torch.optim:SGD", defaults={"lr": 0.05, "momentum": 0.9})


def experiment(
    *,
    backend: Choice,
    optimizer: Choice | None = None,
    model: Callable[[tuple[int, ...], int], nn.Module] = net,
    data: Callable[..., Dataset] = regression,
    rows: int = ROWS,
    batch_size: int = BATCH,
    steps: int = STEPS,
    dtype: str = "float64",
) -> Experiment:
    """An experiment of the kit's own components, but for those that are given."""
    return Experiment(
        choose(Data("rows", data), rows=rows),
        choose(Model("model", model)),
        choose(HEAVY_BALL) if optimizer is None else optimizer,
        backend,
        epochs=None,
        steps=steps,
        batch_size=batch_size,
        dtype=dtype,
    )


class Trained(NamedTuple):
    """What some steps came to. losses: summed over each global batch. prints: fingerprints after each step."""

    model: dict[str, Tensor]
    losses: list[float]
    prints: list[list[str]]
    state: dict[str, Any]


def train(asked: Experiment, start: int = 0, state: dict[str, Any] | None = None) -> Trained:
    """Take the experiment's steps, from number `start` on and from a state where one is given."""
    with assembled(asked) as parts:
        if state is not None:
            parts.backend.load_state_dict(state)
        losses, prints = [], []
        for shards, count in feed(parts, start, (asked.steps or 0) - start):
            losses.append(float(parts.backend.step(shards, count, parts.objective).loss))
            prints.append(parts.backend.fingerprint())
        ended = parts.backend.state_dict()
        return Trained(ended["model"], losses, prints, ended)


def feed(parts: Parts, start: int, steps: int) -> list[tuple[Any, int]]:
    """The shards of each step from number `start` on, and how many rows they have together."""
    per_epoch = parts.order.steps
    epochs = range((start + steps - 1) // per_epoch + 1)
    batches = [rows for epoch in epochs for rows in parts.order.epoch(epoch)][start : start + steps]
    fed = parts.feeds["train"]([parts.backend.shard(rows) for rows in batches])
    return [(shards, rows.numel()) for shards, rows in zip(fed, batches, strict=True)]


def measure(parts: Parts) -> dict[str, float]:
    """The backend's sums over all training rows, in pieces of a batch."""
    sums: dict[str, float] = {}
    pieces = torch.split(torch.arange(parts.dataset.rows), BATCH)
    for shards in parts.feeds["train"]([parts.backend.shard(rows) for rows in pieces]):
        for name, value in parts.backend.evaluate(shards, parts.objective).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def on(choice: Choice, count: int) -> Choice:
    """A backend on so many replicas, where it has a parameter for that."""
    if choice.registration.parameters.named("devices") is None:
        return choice
    return replace(choice, asked=Choice.of(choice.registration, {**choice.asked, "devices": count}).asked)


def furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> tuple[float, str]:
    """The largest difference of a number in two states, and the name of the tensor that has it."""
    return max((float((value - other[name]).abs().max()), name) for name, value in one.items() if value.numel())


def equals(found: Trained, expected: Trained) -> bool:
    """Whether two trainings came to the same parameters and buffers, to the kit's tolerance."""
    return found.model.keys() == expected.model.keys() and furthest(found.model, expected.model)[0] <= TOLERANCE


def curve(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.6g}" for loss in losses)
