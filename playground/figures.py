"""matplotlib figures, made without pyplot, so that no display is ever needed."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    Records = Sequence[Mapping[str, float | None]]

LOG_FROM = 100.0
"""How many times the largest loss must exceed the smallest for a logarithmic axis."""

LOSSES = {"train_loss": "train", "test_loss": "test"}
ACCURACIES = {"train_accuracy": "train", "test_accuracy": "test"}


def curve(records: Records, known_optimum: float | None, title: str) -> Figure:
    """The losses of a run's records over its epochs, with the known optimum as a line where there is one; beside them
    the accuracies, where they were measured.

    Where the training rows were not evaluated, the loss of the training steps stands in for theirs.
    """
    accuracies = list(_points(records, ACCURACIES))
    figure = Figure(figsize=(9 if accuracies else 6, 4), layout="constrained")
    axes = figure.subplots(1, 2 if accuracies else 1, squeeze=False)[0]
    seen = any("train_loss" in record for record in records)
    losses = list(_points(records, LOSSES if seen else {"step_loss": "training steps", **LOSSES}))
    _draw(axes[0], losses)
    shown = [value for _, _, points in losses for _, value in points]
    if known_optimum is not None:
        label = f"known optimum {known_optimum:.4g}"
        axes[0].axhline(known_optimum, color="grey", linestyle="--", label=label, gid="known_optimum")
        shown.append(known_optimum)
    if shown and min(shown) > 0 and max(shown) / min(shown) > LOG_FROM:
        axes[0].set_yscale("log")
    _finish(axes[0], "epoch", "loss")
    if accuracies:
        _draw(axes[1], accuracies)
        _finish(axes[1], "epoch", "accuracy")
    if accuracies:
        figure.suptitle(title, fontsize=9, parse_math=False)
    else:
        axes[0].set_title(title, fontsize=9, parse_math=False)
    return figure


def scaling(series: Mapping[str, Sequence[tuple[int, float]]], ideals: Mapping[str, float], title: str) -> Figure:
    """Speed-up over the number of devices: a measured line for each series, of points (devices, speed-up).

    ideals: by name, how much faster each further device could make it at best: 1 where each brings hardware of its own,
    0 where all share the same.
    """
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Axes = figure.subplots()
    for number, (name, points) in enumerate(series.items()):
        axes.plot(*zip(*points, strict=True), marker="o", label=name, gid=f"measured_{number}")
    devices = sorted({count for points in series.values() for count, _ in points} | {1})
    for number, (name, slope) in enumerate(ideals.items()):
        best = [1 + slope * (count - 1) for count in devices]
        axes.plot(devices, best, color="grey", linestyle=("--", ":")[number % 2], label=name, gid=f"ideal_{number}")
    axes.set_xticks(devices)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=9, parse_math=False)
    _finish(axes, "devices", "speed-up")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG."""
    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box, which is no news to anybody.
        warnings.simplefilter("ignore")
        figure.savefig(path, format="svg")


def _points(records: Records, names: Mapping[str, str]) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """For each name that was recorded: the name, its label, and its finite values over the epochs."""
    for name, label in names.items():
        points = [
            (float(record["epoch"] or 0.0), value)
            for record in records
            if (value := record.get(name)) is not None and math.isfinite(value)
        ]
        if points:
            yield name, label, points


def _draw(axes: Any, lines: Sequence[tuple[str, str, list[tuple[float, float]]]]) -> None:
    for name, label, points in lines:
        # The group name under which the line is found in the SVG.
        axes.plot(*zip(*points, strict=True), label=label, gid=name)


def _finish(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    axes.grid(alpha=0.3)
