"""The model `linear`."""

from __future__ import annotations

import math

from torch import Tensor, nn


def linear(inputs: tuple[int, ...], outputs: int, bias: bool = True) -> nn.Module:
    """One linear layer over all numbers of a row, whatever the row's shape.

    Its parameters are `weight`, of shape (outputs, numbers in a row), drawn from N(0, 0.01²), and `bias`, zero, as in
    *Dive into Deep Learning* (section 3.5).

    Args:
        bias: whether a constant is added to each output.
    """
    return Linear(math.prod(inputs), outputs, bias)


class Linear(nn.Linear):
    """A linear layer that flattens its rows and starts close to zero."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.01)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        # Not flatten(1), which rows of a single number lack; not -1, which no rows at all leave undecided.
        return super().forward(input.reshape(len(input), self.in_features))
