"""Timing an experiment on several numbers of devices and batch sizes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.engine.assembly import assembled, planned
from playground.engine.devices import available
from playground.engine.training import rehearse
from playground.errors import PlaygroundError, RequestError, brief
from playground.experiment import Experiment
from playground.registry import Registry
from playground.runs.directory import claim
from playground.runs.execution import execute
from playground.runs.scaling import Mode, Point, Scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from playground.runs.journal import Observer

WARM_UP = 5
"""Steps that are left out where a number of steps is timed: they start threads, try them out and fill caches."""


def scale(
    layers: Sequence[Mapping[str, Any]],
    devices: Sequence[int] | None = None,
    batch_sizes: Sequence[int] | None = None,
    *,
    registry: Registry | None = None,
    out: Path | None = Path("runs"),
    scaling: Mode = "strong",
    scale_lr: bool = False,
    warm_up: int | None = None,
    repeats: int = 1,
    observer: Callable[[str], Observer] | None = None,
) -> Scaling:
    """Time an experiment on several numbers of devices and batch sizes. Each timing is a run like any other.

    layers: the words of the experiment, as `Experiment.of` takes them. devices: numbers of devices; by default one up
        to all accelerators, or 1 and 2 replicas on the CPU. One device is added where it is missing, as the baseline.
    batch_sizes: global; with weak scaling those of one device. scaling: `strong` keeps the batch, `weak` lets it grow
        with the devices. scale_lr: whether the learning rate grows in proportion to the batch, from the smallest.
    warm_up: steps of each run that are not timed; by default 5 where the words say a number of `steps` (which are then
        timed after them), else none. repeats: runs of each point, in rounds; figures are medians.
    observer: called before each run with what it is; gives who watches it.

    Raises RequestError before anything is run where a point cannot be. A run that fails is a row with its error. After
    Ctrl-C what there is so far is returned, `stopped`; KeyboardInterrupt is raised where there is nothing yet.
    """
    registry = Registry() if registry is None else registry
    made = _scaling(registry, layers, _counts(devices), batch_sizes, scaling, scale_lr, warm_up, repeats)
    todo = made.points * repeats
    _check_rows(made, _warm(todo[0].experiment))
    for number, point in enumerate(todo, start=1):
        try:
            watching = None if observer is None else observer(f"{number} of {len(todo)}: {point}")
            run = execute(point.experiment, registry, out, watching, warm_up=made.warm_up)
        except KeyboardInterrupt:
            if number == 1:
                raise
            # Before this run had a record; those before it are not to be lost.
            made.stopped = True
        except PlaygroundError as error:
            if number == 1:
                # Nothing has been run and nothing written: the request was wrong.
                raise
            point.errors.append(brief(error))
        else:
            point.runs.append(run)
            made.stopped = run.status == "stopped"
            if run.error is not None:
                where = "" if run.directory is None else f"; see {run.directory}/log.txt"
                point.errors.append(brief(run.error) + where)
        if out is not None:
            _save(made, out)
        if made.stopped:
            break
    return made


def _warm(experiment: Experiment) -> int | None:
    """Let the process do once what only a first training costs: else the first row, a baseline, would pay for it.

    Gives the training rows that there are; None where that does not come out.
    """
    rows = None
    # What fails here fails in the run as well, and is reported there.
    with contextlib.suppress(Exception), assembled(experiment) as parts:
        rows = parts.dataset.rows
        rehearse(parts, steps=20, seconds=1.0)
    return rows


def _check_rows(made: Scaling, rows: int | None) -> None:
    """Raise RequestError where a batch that is said to grow cannot, since there are no more rows."""
    most = max(made.points, key=lambda point: point.batch_size)
    if rows is not None and most.batch_size > rows and (made.scaling == "weak" or made.scale_lr):
        raise RequestError(
            f"there are {rows} training rows, and {most} are more: with weak scaling and with --scale-lr a step must "
            "have the rows of its batch; choose fewer devices or a smaller batch size"
        )


def _scaling(
    registry: Registry,
    layers: Sequence[Mapping[str, Any]],
    counts: list[int],
    batch_sizes: Sequence[int] | None,
    scaling: Mode,
    scale_lr: bool,
    warm_up: int | None,
    repeats: int,
) -> Scaling:
    """The table before anything is run."""
    if scaling not in ("strong", "weak"):
        raise RequestError(f"scaling is strong or weak, not {scaling!r}")
    first = Experiment.of(registry, *layers)
    if warm_up is None:
        warm_up = WARM_UP if first.steps else 0
    for name, value, least in (("warm-up", warm_up, 0), ("repeats", repeats, 1)):
        if type(value) is not int or value < least:
            raise RequestError(f"{name} must be a whole number, {least} or more, not {value!r}")
    points = []
    # Validated as a run's, before anything is computed from them.
    asked: Sequence[int | None] = batch_sizes or [None]
    bases = [Experiment.of(registry, *layers, {"batch_size": one}).batch_size for one in asked]
    for base in dict.fromkeys(bases):
        for count in counts:
            words: dict[str, Any] = {"devices": count, "batch_size": base * count if scaling == "weak" else base}
            if first.steps is not None:
                words["steps"] = first.steps + warm_up
            if scale_lr:
                words["lr"] = _lr(first) * words["batch_size"] / min(bases)
            experiment = Experiment.of(registry, *layers, words)
            points.append(Point(count, base, experiment, planned(experiment), warm_up))
    return Scaling(points, scaling, scale_lr, warm_up, repeats)


def _lr(experiment: Experiment) -> float:
    lr = experiment.optimizer.parameters.get("lr")
    if isinstance(lr, bool) or not isinstance(lr, int | float):
        raise RequestError(f"{experiment.optimizer.registration} has no learning rate that could be scaled")
    return lr


def _counts(devices: Sequence[int] | None) -> list[int]:
    """The numbers of devices in their order, one device among them."""
    if devices is None:
        here = available()
        devices = (1, 2) if here[0].type == "cpu" else range(1, len(here) + 1)
    wrong = [count for count in devices if type(count) is not int or count < 1]
    if wrong or not devices:
        raise RequestError(f"scaling takes numbers of devices, such as 1,2,4, not {wrong[0] if wrong else 'none'}")
    return sorted({1, *devices})


def _save(made: Scaling, out: Path) -> None:
    """Keep what there is. What cannot be written becomes a remark: the runs have their own record."""
    try:
        directory = made.directory = made.directory or claim(out, "scale-")
    except OSError as error:
        _remark(made, "the table", error)
        return
    # The table last, so that it says what became of the figure.
    for name, write in (("figure.svg", made.draw), ("scale.json", made.save)):
        try:
            write(directory)
        except (Exception, KeyboardInterrupt) as error:
            made.stopped = made.stopped or isinstance(error, KeyboardInterrupt)
            _remark(made, name, error)


def _remark(made: Scaling, what: str, error: BaseException) -> None:
    remark = f"{what} could not be written: {brief(error)}"
    if remark not in made.remarks:
        made.remarks.append(remark)
