"""The best that any optimizer can reach, where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from playground.engine.dataset import Dataset


MOST_WORK = 10**9
"""Rows × columns² above which the solution is not computed: about a second."""


def least_squares(dataset: Dataset) -> float | None:
    """The smallest training loss (MSE/2) of an affine model on regression data held in memory, in float64.

    None where the data is of another kind, is not finite, or would take longer than it is worth.
    """
    if dataset.task != "regression" or not isinstance(dataset.train, tuple):
        return None
    inputs = dataset.train[0].double().reshape(dataset.rows, -1)
    targets = dataset.train[1].double().reshape(dataset.rows, -1)
    if inputs.shape[0] * inputs.shape[1] ** 2 > MOST_WORK:
        return None
    if not (inputs.isfinite().all() and targets.isfinite().all()):
        # LAPACK does not raise on such numbers but ends the process's use of it.
        return None
    design = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], dim=1)
    # gelsd also solves a design whose columns depend on each other.
    solution = torch.linalg.lstsq(design, targets, driver="gelsd").solution
    return float((design @ solution - targets).square().mean()) / 2
