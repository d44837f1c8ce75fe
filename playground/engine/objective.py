"""Losses and metrics as sums over rows, so that they add up over shards of any size, empty ones included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from playground.engine.dataset import Task


class Objective(ABC):
    """What is minimised, and what is measured beside it."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss summed over the rows, of shape (). Raises ValueError where the shapes do not belong together."""

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Further measures by name, each summed over the rows, of shape ()."""
        return {}


class HalfSquaredError(Objective):
    """Half the squared error of a row, averaged over the row's columns: ½ Σⱼ (ŷⱼ − yⱼ)² / k.

    Its mean over rows is the MSE/2 that *Dive into Deep Learning* trains and logs (section 12.5, `train_ch11`).
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Never left to broadcasting: (N, 1) against (N,) would compare every output with every target.
        if outputs.shape != targets.shape:
            raise ValueError(
                f"the model gives outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}; "
                "they must be the same"
            )
        columns = outputs.shape[1:].numel()
        return functional.mse_loss(outputs, targets, reduction="sum") * (0.5 / columns)


class CrossEntropy(Objective):
    """The negative log-likelihood of a row's class under the softmax of the outputs; with the accuracy beside it."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.ndim != 2 or targets.shape != outputs.shape[:1]:
            raise ValueError(
                f"the model gives outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}; "
                "classification needs (N, classes) and (N,)"
            )
        return functional.cross_entropy(outputs, targets, reduction="sum")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(dim=1) == targets).sum()}


def objective_for(task: Task) -> Objective:
    """The objective of a task."""
    return CrossEntropy() if task == "classification" else HalfSquaredError()
