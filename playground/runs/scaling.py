"""The scaling table: how a backend's speed grows with the devices, against one device."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from playground.runs.directory import now, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matplotlib.figure import Figure

    from playground.engine.backend import Plan
    from playground.experiment import Experiment
    from playground.runs.run import Run

Mode = Literal["strong", "weak"]


@dataclass
class Point:
    """A number of devices and a batch size, and the runs that timed them.

    batch_size: of the whole step. base: the batch size that was asked for; with weak scaling a share of the other.
    warm_up: steps of each run that are not timed.
    """

    devices: int
    base: int
    experiment: Experiment
    plan: Plan
    warm_up: int = 0
    runs: list[Run] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.devices} device{'s' * (self.devices != 1)}, batches of {self.batch_size}"

    @property
    def batch_size(self) -> int:
        return self.experiment.batch_size

    @property
    def lr(self) -> float | None:
        """None where the optimizer has none, or has one that is no number."""
        lr = self.experiment.optimizer.parameters.get("lr")
        return lr if isinstance(lr, int | float) and not isinstance(lr, bool) else None

    @property
    def threads(self) -> int:
        """Intra-op threads of all CPU replicas together."""
        return self.plan.threads * len(self.plan.devices)

    @property
    def status(self) -> str:
        """The worst end of its runs; `missing` where there are none."""
        ends = [run.status for run in self.runs] + ["failed"] * len(self.errors)
        return next((end for end in ("failed", "stopped", "diverged", "done") if end in ends), "missing")

    @property
    def samples_per_sec(self) -> float | None:
        """The median over its runs."""
        return self._median(lambda run: run.samples_per_sec)

    @property
    def sec_per_epoch(self) -> float | None:
        """The median over its runs."""
        return self._median(lambda run: run.sec_per_epoch)

    def share(self, phase: str) -> float | None:
        """The part of the time that a phase took, at the median over its runs."""
        # A backend may have phases that it does not have on one device.
        return self._median(lambda run: run.timed.ms_per_step.get(phase, 0.0) / sum(run.timed.ms_per_step.values()))

    @property
    def phases(self) -> list[str]:
        """None on accelerators, where no phase is waited for and only the whole is known."""
        known = self.timed_runs and all(device.type == "cpu" for device in self.plan.devices)
        return list(self.timed_runs[0].timed.ms_per_step) if known else []

    @property
    def timed_runs(self) -> list[Run]:
        """The runs that came to their end and past the warm-up, a diverged one too: its steps took as long."""
        return [run for run in self.ended_runs if run.timed.steps and run.timed.seconds > 0]

    @property
    def ended_runs(self) -> list[Run]:
        return [run for run in self.runs if run.status in ("done", "diverged")]

    def _median(self, figure: Callable[[Run], float | None]) -> float | None:
        found = [value for run in self.timed_runs if (value := figure(run)) is not None]
        return statistics.median(found) if found else None


@dataclass
class Scaling:
    """A table of points against their baselines, of one device each.

    scaling: `strong` keeps the global batch, `weak` lets it grow with the devices. scale_lr: whether the learning rate
    grows with the batch. warm_up: steps of each run that are not timed. repeats: runs of each point.
    directory: where the table is kept; None where it is not. remarks: what went wrong beside the runs.
    stopped: whether it was interrupted.
    """

    points: list[Point]
    scaling: Mode
    scale_lr: bool
    warm_up: int
    repeats: int
    directory: Path | None = None
    remarks: list[str] = field(default_factory=list)
    stopped: bool = False

    def baseline(self, point: Point) -> Point:
        """One device, with the batch size that was asked for."""
        return next(one for one in self.points if one.devices == 1 and one.base == point.base)

    def speed_up(self, point: Point) -> float | None:
        """How many times as many rows a second as its baseline."""
        mine, its = point.samples_per_sec, self.baseline(point).samples_per_sec
        return mine / its if mine and its else None

    def efficiency(self, point: Point) -> float | None:
        """The speed-up ÷ the number of devices."""
        speed_up = self.speed_up(point)
        return None if speed_up is None else speed_up / point.devices

    def serial_fraction(self, point: Point) -> float | None:
        """The experimentally determined serial fraction (1/ψ − 1/p) / (1 − 1/p) for a speed-up ψ on p > 1 devices
        (Karp & Flatt 1990, *Measuring parallel processor performance*, Communications of the ACM 33(5)).

        It is that of an epoch, which is the same work on any number of devices, whatever the batch.
        """
        speed_up, p = self.speed_up(point), point.devices
        return None if speed_up is None or p == 1 else (1 / speed_up - 1 / p) / (1 - 1 / p)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table, a row a point."""
        return [
            {
                "devices": point.devices,
                "on": [str(device) for device in point.plan.devices],
                "threads": point.threads,
                "batch_size": point.batch_size,
                "lr": point.lr,
                "status": point.status,
                "metrics": point.ended_runs[-1].metrics if point.ended_runs else {},
                "sec_per_epoch": point.sec_per_epoch,
                "samples_per_sec": point.samples_per_sec,
                "speed_up": self.speed_up(point),
                "efficiency": self.efficiency(point),
                "serial_fraction": self.serial_fraction(point),
                "time": {phase: point.share(phase) for phase in point.phases},
                "baseline": point is self.baseline(point),
                "runs": [run.name for run in point.runs],
                "errors": point.errors,
            }
            for point in self.points
        ]

    @property
    def notes(self) -> list[str]:
        """What a reader of the table must know: the baselines, what was scaled, where time was lost, and what the runs
        note themselves, each thing once."""
        return [*self._terms(), *self._verdicts(), *self._noted(), *self.remarks]

    def to_dict(self) -> dict[str, Any]:
        return {
            "scaling": self.scaling,
            "scale_lr": self.scale_lr,
            "warm_up": self.warm_up,
            "repeats": self.repeats,
            "stopped": self.stopped,
            "directory": None if self.directory is None else str(self.directory),
            "rows": self.rows,
            "notes": self.notes,
        }

    def figure(self) -> Figure:
        """Measured and ideal speed-up over the number of devices."""
        from playground.figures import scaling

        series: dict[str, list[tuple[int, float]]] = {}
        for point in self.points:
            if (speed_up := self.speed_up(point)) is not None:
                name = f"batches of {point.base}" + " a device" * (self.scaling == "weak")
                series.setdefault(name, []).append((point.devices, speed_up))
        ideals = {"ideal: each device as fast as the first": 1.0}
        if self._shares_hardware:
            ideals["ideal: all devices share the first one's threads"] = 0.0
        said = self.points[0].experiment
        title = " · ".join(str(said[kind]) for kind in ("model", "data", "optimizer")) + f" · {said.backend.name}"
        return scaling(series, ideals, f"{title} · {self.scaling} scaling")

    def save(self, directory: Path) -> None:
        """Write the table as scale.json."""
        write_json(directory / "scale.json", {"created": now(), **self.to_dict()})

    def draw(self, directory: Path) -> None:
        """Write the figure as figure.svg, whole or not at all."""
        from playground.figures import save

        temporary = directory / ".figure.svg"
        try:
            save(self.figure(), temporary)
            temporary.replace(directory / "figure.svg")
        finally:
            temporary.unlink(missing_ok=True)

    @property
    def _shares_hardware(self) -> bool:
        """Whether devices are replicas on the CPU, with as many threads in all as the one of the baseline."""
        several = [point for point in self.points if point.devices > 1]
        return any(
            {device.type for device in point.plan.devices} == {"cpu"} and point.threads == self.baseline(point).threads
            for point in several
        )

    def _terms(self) -> Iterator[str]:
        for point in self.points:
            if point is self.baseline(point):
                on = point.plan.devices[0]
                threads = f", {point.threads} thread{'s' * (point.threads != 1)}" if on.type == "cpu" else ""
                backend = point.experiment.backend.name
                yield f"baseline of batches of {point.base}: {backend} on one device ({on}{threads}), a speed-up of 1"
        if self._shares_hardware:
            yield (
                "CPU replicas share the machine's threads: where k of them have as many in all as the baseline, a "
                "speed-up of 1 (an efficiency of 1/k, a serial fraction of 1) is all to expect; more comes of smaller "
                "parts"
            )
        for point in self.points:
            base = self.baseline(point)
            if (
                point.plan.devices[0].type == "cpu"
                and point.base == self.points[0].base
                and point.threads != base.threads
            ):
                yield (
                    f"{point.devices} devices have {point.threads} threads in all, the baseline has {base.threads}; "
                    "the same would be a fairer comparison"
                )
        if self.scaling == "weak":
            yield "weak scaling: the batch grows with the devices"
        if self.scale_lr and len({point.batch_size for point in self.points}) == 1:
            yield "--scale-lr changes nothing: all batches are of one size"
        elif self.scale_lr:
            least = min(self.points, key=lambda point: point.batch_size)
            yield f"--scale-lr: the learning rate grows with the batch, from {least.lr} at {least.batch_size} rows"
        elif self.points[0].lr is not None:
            yield "the learning rate is the same in every row (--scale-lr lets it grow with the batch)"

    def _noted(self) -> Iterator[str]:
        """What the runs note, and of which rows unless it is of all."""
        of: dict[str, list[Point]] = {}
        points = [point for point in self.points if point.runs]
        for point in points:
            for text in dict.fromkeys(text for run in point.runs for text in run.notes):
                of.setdefault(text, []).append(point)
        for text, whose in of.items():
            yield text if len(whose) == len(points) else f"{' and '.join(map(str, whose))}: {text}"

    def _verdicts(self) -> Iterator[str]:
        for point in self.points:
            if point.ended_runs and not point.timed_runs:
                steps = max(run.steps for run in point.ended_runs)
                ended = "diverged within" if point.status == "diverged" else "are all of"
                yield f"{point}: nothing was timed, since its {steps} steps {ended} the warm-up of {self.warm_up}"
            speed_up = self.speed_up(point)
            if speed_up is None or speed_up >= 1 or point.devices == 1:
                continue
            base = self.baseline(point)
            mine, its = point.sec_per_epoch or 0.0, base.sec_per_epoch or 0.0
            lost = {
                phase: mine * (point.share(phase) or 0.0) - its * (base.share(phase) or 0.0) for phase in point.phases
            }
            worst = sorted((phase for phase in lost if lost[phase] > 0), key=lambda phase: -lost[phase])[:2]
            where = " and ".join(f"{_seconds(lost[phase])} more for {phase}" for phase in worst)
            yield (
                f"{point.devices} devices with batches of {point.batch_size} are slower than one: an epoch takes "
                f"{_seconds(mine)}, not {_seconds(its)}{'; ' * bool(where)}{where}"
            )


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
