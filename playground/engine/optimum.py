"""The best that any optimizer can reach, where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from playground.engine.dataset import Dataset


def least_squares(dataset: Dataset) -> float | None:
    """The smallest training loss (MSE/2) of an affine model on regression data held in memory, in float64.

    None where the data is of another kind.
    """
    if dataset.task != "regression" or not isinstance(dataset.train, tuple):
        return None
    inputs = dataset.train[0].double().flatten(start_dim=1)
    targets = dataset.train[1].double().reshape(len(inputs), -1)
    design = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], dim=1)
    # gelsd also solves a design whose columns depend on each other.
    solution = torch.linalg.lstsq(design, targets, driver="gelsd").solution
    return float((design @ solution - targets).square().mean()) / 2
