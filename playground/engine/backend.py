"""The contract of a parallel backend: where replicas live, how a batch is cut, how gradients become one update."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from playground.engine.batches import Shard
    from playground.engine.objective import Objective


Seen = Callable[[int, "torch.device", tuple[int, ...], tuple[int, ...]], None]
"""Told of a forward pass: the replica's number, its device, the shapes of what it was given and of what it gave."""


@dataclass(frozen=True)
class Request:
    """What a backend is asked to plan for.

    batch_size: rows of a global batch. threads: intra-op threads that torch may use in all.
    closure: whether the optimizer evaluates loss and gradient again within a step.
    """

    batch_size: int
    threads: int
    closure: bool = False


@dataclass(frozen=True)
class Plan:
    """Where the work will be done.

    devices: one for each replica, over all processes. threads: intra-op threads of each replica.
    processes: how many ranks. notes: what the user should know, e.g. that an algorithm is imitated on the CPU.
    """

    devices: tuple[torch.device, ...]
    threads: int
    processes: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Which of the processes this is, and the devices of its own replicas."""

    devices: tuple[torch.device, ...]
    rank: int = 0
    world: int = 1


@dataclass(frozen=True)
class Recipe:
    """How to make the model and its optimizer: factories, since a backend may shard the one before the other exists.

    model: a new model on the CPU; each call draws the same initial weights.
    optimizer: an optimizer over parameters. closure: whether its step must be given a closure.
    seed: the experiment's; replica i, counted over all ranks, draws its dropout from the stream ("dropout", i).
    """

    model: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    closure: bool
    seed: int


class StepResult(NamedTuple):
    """What a step did.

    loss: the loss before the update, summed over this process's rows, of shape (); it stays on its device, and over
        processes it is only summed (by `sum_over_ranks`) when somebody wants to know.
    moved: bytes of gradients (or parameters) that went from one replica to another; None where nobody counts them.
    seconds: the clock's, by phase: `compute`, `communicate`, `update`, or others of the backend's own. On accelerators
        they are what handing the work over took, unless the backend waits for it.
    """

    loss: Tensor
    moved: int | None = 0
    seconds: Mapping[str, float] = MappingProxyType({})


class ParallelBackend(ABC):
    """A way of training one model on several replicas.

    A backend is made from its parameters alone and does nothing until it is asked to. The calls come in this order:
    `plan`, `setup`, `prepare`, then any number of `shard`, `step`, `evaluate`, `state_dict` and so on, then `close`,
    which is called in any case. In a distributed run each process makes its own backend and calls it alike.
    """

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """Say where the work would be done. Pure: it starts, moves and allocates nothing.

        Raises RequestError, with the reason and what to use instead, where the request cannot be met.
        """

    @abstractmethod
    def setup(self, plan: Plan, place: Place) -> None:
        """Take the place in the plan: threads, streams, the process group."""

    @abstractmethod
    def prepare(self, recipe: Recipe) -> None:
        """Make the replicas of the model, on their devices, and their optimizers."""

    @abstractmethod
    def shard(self, rows: Tensor) -> list[Tensor]:
        """Cut the row numbers of a GLOBAL batch, of shape (n,), into one part for each local replica.

        Over all ranks each row is in one part exactly; parts may be uneven or empty. An empty part comes back to `step`
        and `evaluate` as a micro-batch of 0 rows, so that a rank without rows can still take part in collectives.
        """

    @abstractmethod
    def step(self, shards: Sequence[Shard], count: int, objective: Objective) -> StepResult:
        """Forward, backward, reduction and update over a global batch of `count` rows.

        The gradient is that of the loss summed over the global batch ÷ `count`, whatever the shards.
        """

    @abstractmethod
    def evaluate(self, shards: Sequence[Shard], objective: Objective) -> dict[str, float]:
        """The objective's loss and metrics summed over the rows of all ranks, under `loss` and their names.

        In eval mode and without gradients; leaves every module's mode and buffers as they were.
        """

    def watched(self, seen: Seen) -> AbstractContextManager[None]:
        """While it is open, `seen` hears of each forward pass of a local replica. By default it hears of none."""
        return contextlib.nullcontext()

    def sum_over_ranks(self, part: Tensor) -> Tensor:
        """The sum of a tensor of which each process has a part. A backend of several processes must give its own."""
        return part

    def synchronize(self) -> None:  # noqa: B027 - on the CPU there is nothing to wait for
        """Wait for work that has been handed to accelerators, before a clock is read."""

    @property
    @abstractmethod
    def lr(self) -> float | None:
        """The learning rate of the first parameter group; None where the optimizer has none."""

    @abstractmethod
    def scale_lr(self, factor: float) -> None:
        """Set every parameter group's learning rate to `factor` times its initial one, as a schedule does."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The whole state on the CPU, under the plain names of the model: `model`, `optimizer` and `streams`.

        Any backend can load what any other gave; `optimizer` is of the form that `engine.state` describes.
        """

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state. Raises ValueError or RuntimeError where it is not one of this model and optimizer."""

    @abstractmethod
    def fingerprint(self) -> list[str]:
        """A digest of the parameters of each replica, over all ranks: equal, or something has drifted."""

    @abstractmethod
    def close(self, error: BaseException | None = None) -> None:
        """Give everything back. `error` is what ended the run, where it failed."""
