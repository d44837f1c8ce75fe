"""Run: one execution of an experiment, as Python, hooks and notebooks see it."""

from __future__ import annotations

import html
import io
import math
import secrets
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from playground.errors import PlaygroundError, brief

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from playground.engine.training import Record, Training
    from playground.experiment import Experiment

Status = Literal["running", "done", "diverged", "failed", "stopped"]

NOT_METRICS = frozenset({"step", "samples", "epoch", "seconds", "lr", "step_loss"})


@dataclass
class Run:
    """One execution of an experiment.

    name: its directory's; `unsaved-…` where nothing is written. directory: None where nothing is written.
    status: running, done, diverged (a loss was not finite), failed or stopped. error: what made it fail.
    history: the records, in order. devices: one for each replica.
    steps, samples, seconds: what was trained, evaluation left out. moved: bytes between replicas.
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
    moved: int = 0
    known_optimum: float | None = None
    notes: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def take_over(self, training: Training) -> None:
        """Bring the counts up to what the training has done."""
        self.steps, self.samples, self.moved = training.step, training.samples, training.moved
        self.seconds, self.epochs_done = training.seconds, training.samples / training.parts.order.rows

    @property
    def metrics(self) -> dict[str, float | None]:
        """The losses and metrics of the last record."""
        last = self.history[-1] if self.history else {}
        return {name: value for name, value in last.items() if name not in NOT_METRICS}

    @property
    def sec_per_epoch(self) -> float | None:
        return self.seconds / self.epochs_done if self.epochs_done else None

    @property
    def samples_per_sec(self) -> float | None:
        return self.samples / self.seconds if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """What `run --json` prints."""
        return {
            "status": self.status,
            "run_dir": None if self.directory is None else str(self.directory),
            "experiment": self.experiment.to_dict(),
            **self.summary(),
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
            "bytes_per_step": self.moved / self.steps if self.steps else None,
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
        with warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box, which is no news to anybody.
            warnings.simplefilter("ignore")
            self.figure().savefig(path, format="svg")

    def __str__(self) -> str:
        devices = f"on [{', '.join(self.devices)}]"
        loss = self.metrics.get("train_loss")
        if self.sec_per_epoch is None or loss is None:
            return f"{self.status} {devices}"
        return f"loss: {loss:.3f}, {self.sec_per_epoch:.3f} sec/epoch {devices}"

    def __repr__(self) -> str:
        return f"<Run {self.name} {self.status}: {self}>"

    def _repr_html_(self) -> str:
        """The line and the curve, for a notebook."""
        drawing = io.StringIO()
        self.figure().savefig(drawing, format="svg")
        svg = drawing.getvalue()
        return f"<p>{html.escape(str(self))}</p>{svg[svg.index('<svg') :]}"

    def _best(self) -> dict[str, float | None] | None:
        """The record with the lowest train loss; a loss that is not finite is never the best."""
        losses = [(record["train_loss"], record["step"]) for record in self.history]
        finite = [(loss, step) for loss, step in losses if loss is not None and math.isfinite(loss)]
        if not finite:
            return None
        loss, step = min(finite)
        return {"train_loss": loss, "step": step}


class RunFailedError(PlaygroundError):
    """A run failed after it had begun; its record is kept, in `run` too, and the cause is chained."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run
