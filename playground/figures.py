"""matplotlib figures, made without pyplot, so that no display is ever needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOG_FROM = 100.0
"""How many times the largest loss must exceed the smallest for a logarithmic axis."""


def curve(records: Sequence[Mapping[str, float | None]], known_optimum: float | None, title: str) -> Figure:
    """The losses of a run's records over its epochs, with the known optimum as a line where there is one."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    shown: list[float] = []
    for split in ("train", "test"):
        points = [
            (record["epoch"], loss)
            for record in records
            if (loss := record.get(f"{split}_loss")) is not None and math.isfinite(loss)
        ]
        if points:
            # The group name under which the line is found in the SVG.
            axes.plot(*zip(*points, strict=True), label=split, gid=f"{split}_loss")
            shown += [loss for _, loss in points]
    if known_optimum is not None:
        label = f"known optimum {known_optimum:.4g}"
        axes.axhline(known_optimum, color="grey", linestyle="--", label=label, gid="known_optimum")
        shown.append(known_optimum)
    if shown and min(shown) > 0 and max(shown) / min(shown) > LOG_FROM:
        axes.set_yscale("log")
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    if shown:
        axes.legend()
    axes.grid(alpha=0.3)
    return figure
