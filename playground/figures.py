"""matplotlib figures, made without pyplot, so that no display is ever needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from playground.runs.run import Run

LOG_FROM = 100.0
"""How many times the largest loss must exceed the smallest for a logarithmic axis."""


def curve(run: Run) -> Figure:
    """The losses of a run over its epochs, with the known optimum as a line where there is one."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    shown: list[float] = []
    for split in ("train", "test"):
        points = [
            (record["epoch"], loss)
            for record in run.history
            if (loss := record.get(f"{split}_loss")) is not None and math.isfinite(loss)
        ]
        if points:
            axes.plot(*zip(*points, strict=True), label=split)
            shown += [loss for _, loss in points]
    if run.known_optimum is not None:
        axes.axhline(run.known_optimum, color="grey", linestyle="--", label=f"known optimum {run.known_optimum:.4g}")
        shown.append(run.known_optimum)
    if shown and min(shown) > 0 and max(shown) / min(shown) > LOG_FROM:
        axes.set_yscale("log")
    experiment = run.experiment
    title = " · ".join(str(experiment[kind]) for kind in ("optimizer", "model", "data", "backend"))
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    if shown:
        axes.legend()
    axes.grid(alpha=0.3)
    return figure
