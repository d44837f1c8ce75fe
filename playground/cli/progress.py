"""Progress on stderr: a bar on a terminal, else at most a line an epoch."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from playground.cli.output import note
from playground.runs.journal import Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from playground.engine.training import Record, Training
    from playground.runs.run import Run


def observer_for(mode: str) -> Observer:
    """The observer for a mode: `bar`, `lines`, `none`, or `auto` (a bar on a terminal, else lines)."""
    if mode == "auto":
        mode = "bar" if sys.stderr.isatty() else "lines"
    return {"bar": Bar, "lines": Lines, "none": Quiet}[mode]()


class Quiet(Observer):
    """Notes only."""

    def note(self, text: str) -> None:
        note(f"note: {text}")


class Lines(Quiet):
    """A line an epoch, with its last record, and one for the last record of all."""

    def __init__(self) -> None:
        self._total = 0
        self._epochs = 0.0
        self._epoch = 0.0

    def start(self, run: Run, training: Training) -> None:
        self._total = training.total
        self._epochs = training.total / training.parts.order.rows

    def record(self, run: Run, record: Record) -> None:
        ended = record["samples"] == self._total
        epoch = self._epochs if ended else math.floor(record["epoch"] or 0.0)
        if epoch > self._epoch:
            self._epoch = epoch
            note(f"epoch {round(epoch, 2):.15g}/{round(self._epochs, 2):.15g}: {_figures(run)}")


class Bar(Quiet):
    """A bar over the samples, with the last record beside it."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def start(self, run: Run, training: Training) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        # Drawn when there is news, not by a thread of its own, which would take turns with the training.
        self._progress = Progress(
            TextColumn("{task.percentage:>3.0f}%"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("", total=training.total)
        self._progress.start()

    def tick(self, samples: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=samples, refresh=True)

    def record(self, run: Run, record: Record) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=_figures(run))

    def end(self, run: Run) -> None:
        if self._progress is not None:
            self._progress.stop()

    def note(self, text: str) -> None:
        if self._progress is None or self._progress.finished:
            super().note(text)
        else:
            self._progress.console.print(f"note: {text}", markup=False, highlight=False)


def _figures(run: Run) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in run.metrics.items() if value is not None)
