"""The model `resnet18`."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block: two convolutions of 3 × 3, whose result is added to the input (He et al. 2016, figure 2).

    Where the stride is 2 or the channels change, the input comes through a convolution of 1 × 1.
    """

    def __init__(self, channels: int, width: int, stride: int, batch_norm: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1)
        self.norm1 = _norm(width, batch_norm)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm2 = _norm(width, batch_norm)
        changes = stride != 1 or channels != width
        self.shortcut = nn.Conv2d(channels, width, 1, stride=stride) if changes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """From (N, channels, height, width) to (N, width, ⌈height / stride⌉, ⌈width / stride⌉)."""
        hidden = functional.relu(self.norm1(self.conv1(images)))
        return functional.relu(self.norm2(self.conv2(hidden)) + self.shortcut(images))


def resnet18(
    inputs: tuple[int, ...],
    outputs: int,
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024, 1024),
    batch_norm: bool = True,
    std: float = 0.01,
) -> nn.Module:
    """A residual net for small images, after the modified ResNet-18 of *Dive into Deep Learning*, section 13.6.

    Against that of He et al. 2016 (Deep residual learning for image recognition, arXiv 1512.03385) the stem is a
    convolution of 3 × 3 with stride 1, and there is no max-pool. Then come groups of two blocks; each group after the
    first halves the height and width. A global average pool and a linear layer end it. The book's code has the first
    four groups, 18 layers with weights, of the six that are the default here. Weights of convolutions and of the linear
    layer are drawn from N(0, std²), biases are torch's own. Inputs have the shape (N, channels, height, width).

    Args:
        widths: the channels of each group; the stem has the first group's. `[64, 128, 256, 512]` is the net of the
            book's code, `[8, 16]` a thin one for a CPU.
        batch_norm: whether convolutions are followed by batch normalisation. It works on the rows that a replica sees
            at once; so the numbers depend on how a batch is cut.
        std: the standard deviation of the initial weights, above 0.

    Raises:
        ValueError: the inputs are no images, or a width or std is out of its range.
    """
    if len(inputs) != 3:
        raise ValueError(
            f"resnet18 takes images of the shape (channels, height, width), not rows of the shape {inputs}"
        )
    if not widths:
        raise ValueError("widths must have a number of channels for each group, and has none")
    if wrong := [width for width in widths if width < 1]:
        raise ValueError(f"widths must be numbers of channels of 1 or more, not {wrong[0]}")
    if not (math.isfinite(std) and std > 0):
        raise ValueError(f"std must be finite and above 0, not {std}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(inputs[0], widths[0], 3, padding=1), norm=_norm(widths[0], batch_norm), relu=nn.ReLU()
    )
    channels = widths[0]
    for number, width in enumerate(widths, start=1):
        layers[f"group{number}"] = _group(channels, width, 1 if number == 1 else 2, batch_norm)
        channels = width
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["output"] = nn.Linear(channels, outputs)
    model = nn.Sequential(layers)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.normal_(layer.weight, std=std)
    return model


def _group(channels: int, width: int, stride: int, batch_norm: bool) -> nn.Module:
    blocks = {"block1": Block(channels, width, stride, batch_norm), "block2": Block(width, width, 1, batch_norm)}
    return nn.Sequential(OrderedDict[str, nn.Module](blocks))


def _norm(width: int, batch_norm: bool) -> nn.Module:
    return nn.BatchNorm2d(width) if batch_norm else nn.Identity()
