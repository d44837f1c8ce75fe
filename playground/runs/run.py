"""Run: one execution of an experiment, as Python, hooks and notebooks see it."""

from __future__ import annotations

import html
import io
import math
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from playground.engine import weights
from playground.engine.ledger import Ledger
from playground.errors import PlaygroundError, brief

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from torch import Tensor

    from playground.engine.shapes import BatchShapes
    from playground.engine.training import Record, Training
    from playground.experiment import Experiment

Status = Literal["running", "done", "diverged", "failed", "stopped"]

HEADLINES = ("test_accuracy", "train_loss", "test_loss")

NOT_METRICS = frozenset({"step", "samples", "epoch", "seconds", "lr", "step_loss"})


@dataclass
class Run:
    """One execution of an experiment.

    name: its directory's; `unsaved-…` where nothing is written. directory: None where nothing is written.
    status: running, done, diverged (a loss was not finite), failed or stopped. error: what made it fail.
    history: the records, in order. devices: one for each replica.
    steps, samples, seconds: what was trained, evaluation left out. epochs_done: passes over the training rows.
    timed: what speed is computed from; the whole training, unless its first steps were to be left out.
    shapes: what went through the replicas, where that was to be traced. parameters: the model's parameters and buffers
        at the end, by name, where they were to be kept.
    known_optimum: the least training loss that any optimizer can reach, where it is known.
    notes: what a reader of the result must know.
    """

    experiment: Experiment
    name: str = field(default_factory=lambda: f"unsaved-{secrets.token_hex(3)}")
    directory: Path | None = None
    status: Status = "running"
    history: list[Record] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    epochs_done: float = 0.0
    timed: Ledger = field(default_factory=Ledger)
    shapes: list[BatchShapes] = field(default_factory=list)
    parameters: dict[str, Tensor] | None = None
    known_optimum: float | None = None
    notes: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def take_over(self, training: Training) -> None:
        """Bring the counts up to what the training has done."""
        self.steps, self.samples, self.seconds = training.step, training.samples, training.seconds
        self.epochs_done = training.samples / training.parts.order.rows
        self.timed = training.ledger

    @property
    def metrics(self) -> dict[str, float | None]:
        """The losses and metrics of the last record."""
        last = self.history[-1] if self.history else {}
        return {name: value for name, value in last.items() if name not in NOT_METRICS}

    @property
    def headline(self) -> str | None:
        """The metric that a run is known by: the test accuracy, else the train loss, else the test loss."""
        return next((name for name in HEADLINES if name in self.metrics), None)

    @property
    def sec_per_epoch(self) -> float | None:
        speed = self.timed.samples_per_sec
        return self.samples / self.epochs_done / speed if speed else None

    @property
    def samples_per_sec(self) -> float | None:
        return self.timed.samples_per_sec

    def to_dict(self) -> dict[str, Any]:
        """What `run --json` prints."""
        return {
            "status": self.status,
            "run_dir": None if self.directory is None else str(self.directory),
            "experiment": self.experiment.to_dict(),
            **self.summary(),
            **({} if self.parameters is None else {"parameters": weights.describe(self.parameters)}),
        }

    def summary(self) -> dict[str, Any]:
        """What summary.json holds."""
        return {
            "status": self.status,
            "metrics": self.metrics,
            "best": self._best(),
            "known_optimum": self.known_optimum,
            "sec_per_epoch": self.sec_per_epoch,
            "samples_per_sec": self.samples_per_sec,
            "devices": self.devices,
            "steps": self.steps,
            "samples": self.samples,
            "timed_steps": self.timed.steps,
            "bytes_per_step": self.timed.bytes_per_step,
            "ms_per_step": self.timed.ms_per_step,
            "shapes": [batch.to_dict() for batch in self.shapes],
            "notes": self.notes,
            "error": None if self.error is None else brief(self.error),
        }

    def figure(self) -> Figure:
        """The curve of the run's losses."""
        from playground.figures import curve

        title = " · ".join(str(self.experiment[kind]) for kind in ("optimizer", "model", "data", "backend"))
        return curve(self.history, self.known_optimum, title)

    def draw(self, path: Path) -> None:
        """Write the figure as SVG."""
        from playground.figures import save

        save(self.figure(), path)

    def __str__(self) -> str:
        devices = f"on [{', '.join(self.devices)}]"
        value = None if self.headline is None else self.metrics[self.headline]
        if self.sec_per_epoch is None or value is None:
            return f"{self.status} {devices}"
        name = "loss" if self.headline == "train_loss" else self.headline
        return f"{name}: {value:.3f}, {self.sec_per_epoch:.3f} sec/epoch {devices}"

    def __repr__(self) -> str:
        return f"<Run {self.name} {self.status}: {self}>"

    def _repr_html_(self) -> str:
        """The line and the curve, for a notebook."""
        drawing = io.StringIO()
        self.figure().savefig(drawing, format="svg")
        svg = drawing.getvalue()
        return f"<p>{html.escape(str(self))}</p>{svg[svg.index('<svg') :]}"

    def _best(self) -> dict[str, float | None] | None:
        """The record with the lowest loss, of the training rows where they are evaluated, else of the test rows.

        A loss that is not finite is never the best.
        """
        name = "train_loss" if "train_loss" in self.metrics else "test_loss"
        losses = [(record.get(name), record["step"]) for record in self.history]
        finite = [(loss, step) for loss, step in losses if loss is not None and math.isfinite(loss)]
        if not finite:
            return None
        loss, step = min(finite)
        return {name: loss, "step": step}


class RunFailedError(PlaygroundError):
    """A run failed after it had begun; its record is kept, in `run` too, and the cause is chained."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run
