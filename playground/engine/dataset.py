"""What a data component's factory returns: rows to train on, rows to test on, and what is to be learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

Rows = tuple[Tensor, Tensor] | TorchDataset[tuple[Tensor, Tensor]]
"""Rows in memory, (inputs, targets) with the same first dimension, or a map-style data set with a length."""

Task = Literal["regression", "classification"]


def count(rows: Rows) -> int:
    """How many rows there are."""
    return len(rows[0]) if isinstance(rows, tuple) else len(rows)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Dataset:
    """Data that can be trained on.

    train, test: the rows. In memory: inputs of shape (N, …) and targets of shape (N, k) for regression, (N,) of int64
        class numbers for classification. Rows of a map-style data set are pairs of one row's input and target; they
        are read through `torch.utils.data.DataLoader`, in `workers` processes.
    task: `regression` (half the mean squared error) or `classification` (cross-entropy, accuracy).
    classes: how many classes there are; classification only.
    notes: what a reader of results must know, e.g. how the columns were standardised.
    waives: what these data knowingly do not keep: the reason by the name of the conformance check.

    Raises ValueError or TypeError where the parts do not fit together.
    """

    train: Rows
    test: Rows | None = None
    task: Task = "regression"
    classes: int | None = None
    notes: tuple[str, ...] = ()
    workers: int = 0
    waives: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, rows in (("train", self.train), ("test", self.test)):
            if rows is None:
                continue
            if isinstance(rows, tuple) and not (len(rows) == 2 and all(isinstance(part, Tensor) for part in rows)):
                kinds = ", ".join(type(part).__name__ for part in rows)
                raise TypeError(f"{name} is a tuple of {kinds}, not of two tensors; torch.as_tensor makes one")
            if not isinstance(rows, tuple) and not (hasattr(rows, "__getitem__") and hasattr(rows, "__len__")):
                raise TypeError(f"{name} is a {type(rows).__name__}, neither two tensors nor a data set with a length")
            if isinstance(rows, tuple) and len(rows[0]) != len(rows[1]):
                raise ValueError(f"{name} has {len(rows[0])} rows of inputs and {len(rows[1])} of targets")
            if isinstance(rows, tuple) and rows[0].dtype == torch.uint8:
                # Converted as they are they would be trained on from 0 to 255, where most learning rates diverge.
                raise TypeError(
                    f"{name} has inputs of uint8; make floats of them: pixels are scaled to 0 to 1 by .float() / 255"
                )
            if count(rows) == 0:
                raise ValueError(f"{name} has no rows")
        if self.task not in ("regression", "classification"):
            raise ValueError(f"task is {self.task!r}, neither 'regression' nor 'classification'")
        if self.task == "classification" and not self.classes:
            raise ValueError("classification needs the number of classes")
        for rows in (self.train, self.test) if self.task == "classification" else ():
            if isinstance(rows, tuple) and not ((rows[1] >= 0) & (rows[1] < (self.classes or 0))).all():
                # torch would leave rows of the class -100 out without a word.
                raise ValueError(f"class numbers must be from 0 to {(self.classes or 0) - 1}")
        notes: Any = self.notes
        if not isinstance(notes, tuple | list) or not all(isinstance(note, str) for note in notes):
            raise TypeError("notes must be a tuple of str")
        waives: Any = self.waives
        if not isinstance(waives, Mapping) or not all(isinstance(one, str) for pair in waives.items() for one in pair):
            raise TypeError("waives must be a mapping of names of checks to reasons")

    @property
    def rows(self) -> int:
        """How many training rows there are."""
        return count(self.train)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of one row's input."""
        return tuple(self._first()[0].shape)

    @property
    def outputs(self) -> int:
        """How many numbers a model must give for one row."""
        if self.classes is not None:
            return self.classes
        return max(1, self._first()[1].numel())

    def _first(self) -> tuple[Tensor, Tensor]:
        row: Any = (self.train[0][0], self.train[1][0]) if isinstance(self.train, tuple) else self.train[0]
        return torch.as_tensor(row[0]), torch.as_tensor(row[1])
