"""A model's parameters and buffers, for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

FEW = 20
"""Up to so many numbers are shown themselves; of more, their statistics."""


def describe(parameters: Mapping[str, Tensor]) -> dict[str, Any]:
    """By name the `shape`, and the `values` where they are few, else `mean`, `std`, `min` and `max`."""
    return {name: {"shape": list(value.shape), **_numbers(value)} for name, value in parameters.items()}


def lines(parameters: Mapping[str, Tensor]) -> list[str]:
    """A line for each: its name, shape, and values or statistics."""
    found = []
    for name, one in describe(parameters).items():
        if "values" in one:
            said = " ".join(f"{number:.6g}" for number in parameters[name].flatten().tolist())
        else:
            said = "  ".join(f"{key} {one[key]:.4g}" for key in ("mean", "std", "min", "max"))
        found.append(f"{name} {one['shape']}: {said}")
    return found


def _numbers(value: Tensor) -> dict[str, Any]:
    if value.numel() <= FEW:
        return {"values": value.tolist()}
    numbers = value.double()
    return {
        "mean": numbers.mean().item(),
        "std": numbers.std(correction=0).item(),
        "min": numbers.min().item(),
        "max": numbers.max().item(),
    }
