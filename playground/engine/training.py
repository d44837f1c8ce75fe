"""The training loop, read from top to bottom.

The loop owns the global order of rows, when to evaluate, when to stop, and the records. How a batch becomes an update
is the backend's business.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from playground.engine import randomness
from playground.engine.ledger import Ledger
from playground.engine.stopwatch import Stopwatch
from playground.errors import PlaygroundError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from torch import Tensor

    from playground.engine.assembly import Parts
    from playground.engine.batches import Feed, Shard
    from playground.engine.shapes import Shapes
    from playground.experiment import Experiment

Record = dict[str, float | None]
"""What an evaluation found: step, samples, epoch, seconds of training so far, lr, step_loss and, for each split, loss
and metrics (`train_loss`, `test_accuracy` …). `step_loss` is the loss of the batches since the last record, each
before its update; a mean over their rows."""

TICK = 0.1
"""Seconds between signs of life for a progress bar."""


def rehearse(parts: Parts, steps: int, seconds: float) -> None:
    """Take a number of steps that nobody looks at, no more of them than fit into some seconds."""
    deadline = time.perf_counter() + seconds
    order = parts.order.epoch(0)[:steps]
    for rows, shards in zip(order, parts.feeds["train"](map(parts.backend.shard, order)), strict=True):
        parts.backend.step(shards, rows.numel(), parts.objective)
        if time.perf_counter() > deadline:
            break


class Training:
    """One training of assembled parts. What it has done so far can be read at any time.

    step: updates taken; steps: how many there will be. samples: rows seen; total: how many there will be.
    diverged: whether a loss was not finite.
    """

    def __init__(self, parts: Parts, experiment: Experiment, *, warm_up: int = 0, shapes: Shapes | None = None) -> None:
        """Begin at the beginning; nothing is trained yet.

        warm_up: the first steps, which the ledger leaves out: they start threads and fill caches.
        shapes: what is to hear of the shapes that go through the replicas.
        """
        self.parts = parts
        self.steps = experiment.steps or (experiment.epochs or 1) * parts.order.steps
        self.total = parts.order.samples(self.steps)
        self.eval_every = experiment.eval_every or parts.order.rows
        self.step = 0
        self.samples = 0
        self.diverged = False
        self._evaluated = {name: feed for name, feed in parts.feeds.items() if name in (experiment.evaluate or [name])}
        self._warm_up = warm_up
        self._shapes = shapes
        self._clock = Stopwatch()
        self._ledger = Ledger()
        self._ledger_opened = 0.0
        self._losses: list[Tensor] = []
        self._recorded_step = 0
        self._recorded_samples = 0

    @property
    def seconds(self) -> float:
        """Time spent in training; evaluation, and what is done with a record, are left out."""
        return self._clock.seconds

    @property
    def ledger(self) -> Ledger:
        """Where the time went, from the end of the warm-up on; empty where that has not ended."""
        if self.step <= self._warm_up > 0:
            return Ledger()
        return replace(self._ledger, seconds=self.seconds - self._ledger_opened, phases=dict(self._ledger.phases))

    def records(self, tick: Callable[[int], None] = lambda samples: None) -> Generator[Record, None, None]:
        """Train; yields a record before the first step, whenever a multiple of `eval_every` samples has been passed,
        and after the last step. Ends early where the loss is not finite.

        tick: called with the number of samples seen, about ten times a second.
        """
        yield from self._recorded()
        next_tick = 0.0
        self._clock.start()
        try:
            for count, shards in self._batches():
                self._take_step(shards, count)
                if self.samples >= self._due:
                    yield from self._recorded()
                if (now := time.perf_counter()) >= next_tick:
                    next_tick = now + TICK
                    tick(self.samples)
            if self._recorded_step != self.step:
                yield from self._recorded()
        finally:
            self._clock.stop()

    def _batches(self) -> Iterator[tuple[int, list[Shard]]]:
        """The global batches that are left: the number of rows, and the shards of this process's replicas.

        None are left once the training has diverged.
        """
        for epoch in itertools.count():
            order = self.parts.order.epoch(epoch)[: self.steps - self.step]
            batches = self.parts.feeds["train"](map(self.parts.backend.shard, order), epoch)
            for rows in order:
                if self.diverged:
                    return
                started = time.perf_counter()
                shards = next(batches)
                self._ledger.feed(time.perf_counter() - started)
                yield rows.numel(), shards
            if self.step >= self.steps:
                return

    def _take_step(self, shards: list[Shard], count: int) -> None:
        backend, objective = self.parts.backend, self.parts.objective
        if self._shapes is not None and self._shapes.new(count):
            with self._shapes.watching(self.parts, self.step + 1, shards):
                result = backend.step(shards, count, objective)
        else:
            result = backend.step(shards, count, objective)
        self.step += 1
        self.samples += count
        self._ledger.step(count, result.moved, result.seconds)
        self._losses.append(result.loss)
        if self.step == self._warm_up:
            backend.synchronize()
            self._ledger, self._ledger_opened = Ledger(), self.seconds

    @property
    def _due(self) -> int:
        """How many samples the next record waits for."""
        return (self._recorded_samples // self.eval_every + 1) * self.eval_every

    def _recorded(self) -> Iterator[Record]:
        """One record, for whoever asks; neither making it nor what is done with it counts as training, moves a random
        stream of the training, or switches gradients off."""
        self.parts.backend.synchronize()
        with self._clock.paused(), randomness.preserved(self.parts.place.devices), torch.enable_grad():
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
        for split, feed in self._evaluated.items():
            record |= {f"{split}_{name}": value for name, value in self._measure(feed).items()}
        losses = [value for name, value in record.items() if name.endswith("loss") and value is not None]
        self.diverged = not all(map(math.isfinite, losses))
        if not self.diverged:
            self._check_replicas()
        self._recorded_step, self._recorded_samples = self.step, self.samples
        return record

    def _measure(self, feed: Feed) -> dict[str, float]:
        """The means over a split's rows; each row is seen once."""
        sums: dict[str, float] = {}
        for shards in feed(map(self.parts.backend.shard, feed.in_order())):
            for name, value in self.parts.backend.evaluate(shards, self.parts.objective).items():
                sums[name] = sums.get(name, 0.0) + float(value)
        if "loss" not in sums:
            raise PlaygroundError("the backend's evaluation gives no 'loss'")
        return {name: value / feed.rows for name, value in sums.items()}

    def _mean_step_loss(self) -> float | None:
        # Losses are left on their device until now, since reading one would make every step wait for it.
        losses, self._losses = self._losses, []
        if not losses:
            return None
        total = self.parts.backend.sum_over_ranks(torch.stack(losses).sum(dtype=torch.float64))
        return float(total) / (self.samples - self._recorded_samples)

    def _check_replicas(self) -> None:
        """Raises PlaygroundError where replicas that must be equal are not."""
        if not self.parts.exact or len(self.parts.plan.devices) == 1:
            return
        prints = self.parts.backend.fingerprint()
        strays = [str(number) for number, one in enumerate(prints) if one != prints[0]]
        if strays:
            raise PlaygroundError(
                f"by step {self.step} the parameters of replica {', '.join(strays)} differ from those of replica 0; "
                "an exact backend keeps them equal"
            )
