"""The data `linear-regression`: rows made from a linear model that is known."""

from __future__ import annotations

import math

import torch

from playground import Dataset, RequestError


def load(
    rows: int = 200,
    weights: tuple[float, ...] = (5.2, 9.6),
    bias: float = 3.4,
    noise: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Make rows x and y = x·w + b + ε, x standard normal and ε normal.

    The form is that of *Dive into Deep Learning*, section 3.3; the numbers are this project's.

    Inputs have the shape (N, number of weights), targets (N, 1), both float32. The same seed gives the same inputs
    whatever the weights' values, the bias and the noise are.

    Args:
        rows: how many rows to make.
        weights: w, a number for each feature.
        bias: b.
        noise: the standard deviation of ε; 0 makes targets that a linear model can reach.
        seed: of the inputs and the noise.

    Raises:
        RequestError: a value is out of its range, or the targets would not fit into float32.
    """
    if rows < 1:
        raise RequestError(f"rows must be 1 or more, not {rows}")
    if not weights:
        raise RequestError("weights must have a number for each feature, and has none")
    for name, value in (*(("weights", weight) for weight in weights), ("bias", bias), ("noise", noise)):
        if not math.isfinite(value):
            raise RequestError(f"{name} must be finite, not {value}")
    if noise < 0:
        raise RequestError(f"noise is a standard deviation and must be 0 or more, not {noise}")
    if not 0 <= seed < 2**63:
        raise RequestError(f"seed must be at least 0 and below 2**63, not {seed}")
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, len(weights), generator=generator)
    # In float64 and rounded once, so that the targets do not depend on how a machine multiplies matrices.
    exact = inputs.double() @ torch.tensor(weights, dtype=torch.float64) + bias
    targets = (exact + noise * torch.randn(rows, generator=generator).double()).float().unsqueeze(1)
    if not targets.isfinite().all():
        raise RequestError("weights, bias or noise are too large: the targets do not fit into float32")
    return Dataset(train=(inputs, targets))
