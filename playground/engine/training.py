"""The training loop, read from top to bottom.

The loop owns the global order of rows, when to evaluate, when to stop, and the records. How a batch becomes an update
is the backend's business.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch

from playground.engine import randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from playground.engine.assembly import Parts
    from playground.engine.batches import Feed

Record = dict[str, float | None]
"""What an evaluation found: step, samples, epoch, seconds of training so far, lr, step_loss and, for each split, loss
and metrics (`train_loss`, `test_accuracy` …). `step_loss` is the loss of the batches since the last record, each
before its update; a mean over their rows."""

TICK = 0.1
"""Seconds between signs of life for a progress bar."""


class Training:
    """One training of assembled parts. What it has done so far can be read at any time.

    step: updates taken. samples: rows seen. seconds: time spent in training, evaluation left out. moved: bytes that
    went between replicas. diverged: whether a loss was not finite.
    """

    def __init__(self, parts: Parts, epochs: int, eval_every: int | None) -> None:
        self.parts = parts
        self.epochs = epochs
        self.eval_every = eval_every or parts.order.rows
        self.total = epochs * parts.order.rows
        self.step = 0
        self.samples = 0
        self.seconds = 0.0
        self.moved = 0
        self.diverged = False
        self._losses: list[Tensor] = []
        self._unrecorded = 0

    def records(self, tick: Callable[[int], None] = lambda samples: None) -> Iterator[Record]:
        """Train; yields a record before the first step, whenever a multiple of `eval_every` samples has been passed,
        and after the last step. Ends early where the loss is not finite.

        tick: called with the number of samples seen, about ten times a second.
        """
        backend, objective, order = self.parts.backend, self.parts.objective, self.parts.order
        # Neither an evaluation nor what is done with its record may move the random numbers of the training.
        with randomness.preserved(self.parts.plan.devices):
            yield self._evaluate()
        recorded, due, next_tick = 0, self.eval_every, 0.0
        for epoch in range(self.epochs):
            batches = order.epoch(epoch)
            shards = self.parts.feeds["train"]((backend.shard(rows) for rows in batches), epoch)
            started = time.perf_counter()
            for rows in batches:
                count = rows.numel()
                result = backend.step(next(shards), count, objective)
                self.step += 1
                self.samples += count
                self.moved += result.moved
                self._losses.append(result.loss)
                if self.samples >= due:
                    self.seconds += time.perf_counter() - started
                    due = (self.samples // self.eval_every + 1) * self.eval_every
                    recorded = self.step
                    with randomness.preserved(self.parts.plan.devices):
                        yield self._evaluate()
                    if self.diverged:
                        return
                    started = time.perf_counter()
                if (now := time.perf_counter()) >= next_tick:
                    next_tick = now + TICK
                    tick(self.samples)
            self.seconds += time.perf_counter() - started
        if recorded != self.step:
            with randomness.preserved(self.parts.plan.devices):
                yield self._evaluate()

    def _evaluate(self) -> Record:
        record: Record = {
            "step": self.step,
            "samples": self.samples,
            "epoch": self.samples / self.parts.order.rows,
            "seconds": self.seconds,
            "lr": self.parts.backend.lr,
            "step_loss": self._mean_step_loss(),
        }
        for split, feed in self.parts.feeds.items():
            record |= {f"{split}_{name}": value for name, value in self._measure(feed).items()}
        losses = [value for name, value in record.items() if name.endswith("loss") and value is not None]
        self.diverged = not all(map(math.isfinite, losses))
        return record

    def _measure(self, feed: Feed) -> dict[str, float]:
        """The means over a split's rows; each row is seen once."""
        sums: dict[str, float] = {}
        pieces = feed.in_order()
        for shards in feed([self.parts.backend.shard(rows) for rows in pieces]):
            for name, value in self.parts.backend.evaluate(shards, self.parts.objective).items():
                sums[name] = sums.get(name, 0.0) + value
        return {name: value / feed.rows for name, value in sums.items()}

    def _mean_step_loss(self) -> float | None:
        # Losses are left on their device until now, since reading one would make every step wait for it.
        rows, self._unrecorded = self.samples - self._unrecorded, self.samples
        losses, self._losses = self._losses, []
        return float(self.parts.backend.total(torch.stack(losses).double().sum())) / rows if losses else None
