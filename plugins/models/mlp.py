"""The model `mlp`."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Literal

from torch import nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def mlp(
    inputs: tuple[int, ...],
    outputs: int,
    hidden: tuple[int, ...] = (64,),
    activation: Literal["relu", "tanh", "sigmoid", "gelu", "silu"] = "relu",
    dropout: float = 0.0,
    batch_norm: bool = False,
) -> nn.Module:
    """Hidden linear layers, each followed by batch normalisation (if wanted), an activation and dropout (if wanted).

    The initial weights are torch's own: uniform within ±1/√(numbers that go into the layer). Layers are named
    `linear1`, `norm1` … and `output`, so that a parameter keeps its name when dropout or the activation is changed.

    Args:
        hidden: the sizes of the hidden layers; an empty list leaves a linear model.
        activation: the function after each hidden layer.
        dropout: the share of each hidden layer's outputs that is set to zero in training, at least 0 and below 1.
        batch_norm: whether hidden layers are normalised over the rows that a replica sees at once, which must be two
            or more in training; so the numbers depend on how a batch is cut.

    Raises:
        ValueError: a hidden size or the dropout is out of its range.
    """
    if wrong := [size for size in hidden if size < 1]:
        raise ValueError(f"hidden must be sizes of 1 or more, not {wrong[0]}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {dropout}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if len(inputs) != 1:
        layers["rows"] = nn.Flatten() if inputs else nn.Unflatten(0, (-1, 1))
    width = math.prod(inputs)
    for number, size in enumerate(hidden, start=1):
        layers[f"linear{number}"] = nn.Linear(width, size)
        if batch_norm:
            layers[f"norm{number}"] = nn.BatchNorm1d(size)
        layers[f"activation{number}"] = ACTIVATIONS[activation]()
        if dropout:
            layers[f"dropout{number}"] = nn.Dropout(dropout)
        width = size
    layers["output"] = nn.Linear(width, outputs)
    return nn.Sequential(layers)
