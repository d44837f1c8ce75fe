"""The model `lenet`."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import nn

SMALLEST = 14
"""The least height and width of an image that something is left of: (14 − 2) / 2 = 6, (6 − 4) / 2 = 1."""


def lenet(inputs: tuple[int, ...], outputs: int, std: float = 0.01) -> nn.Module:
    """Two convolutions, each with ReLU and an average pool of 2 × 2 after it, and two linear layers.

    The net that *Dive into Deep Learning* writes from scratch in section 13.5: 20 channels of 3 × 3, 50 of 5 × 5, then
    128 hidden numbers; after LeCun et al. 1998, Gradient-based learning applied to document recognition. Weights are
    drawn from N(0, std²), biases are 0. Inputs have the shape (N, channels, height, width).

    Args:
        std: the standard deviation of the initial weights, above 0.

    Raises:
        ValueError: the inputs are no images, or too small, or std is out of its range.
    """
    if len(inputs) != 3:
        raise ValueError(f"lenet takes images of the shape (channels, height, width), not rows of the shape {inputs}")
    if min(inputs[1:]) < SMALLEST:
        raise ValueError(f"lenet takes images of {SMALLEST} × {SMALLEST} or more, not {inputs[1]} × {inputs[2]}")
    if not (math.isfinite(std) and std > 0):
        raise ValueError(f"std must be finite and above 0, not {std}")
    channels, *sides = inputs
    height, width = (((side - 2) // 2 - 4) // 2 for side in sides)
    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(channels, 20, 3),
            relu1=nn.ReLU(),
            pool1=nn.AvgPool2d(2),
            conv2=nn.Conv2d(20, 50, 5),
            relu2=nn.ReLU(),
            pool2=nn.AvgPool2d(2),
            flatten=nn.Flatten(),
            linear1=nn.Linear(50 * height * width, 128),
            relu3=nn.ReLU(),
            output=nn.Linear(128, outputs),
        )
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return model
