"""The global order of rows, and how batches are fed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from playground.engine import randomness
from playground.engine.dataset import Dataset, Rows, count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Batch = tuple[Tensor, Tensor]
"""Inputs and targets of some rows."""

Shard = list[Batch]
"""The part of a global batch that one replica gets, as micro-batches; one of 0 rows where it gets none."""

EVALUATED_AT_ONCE = 2**19
"""How many numbers of input an evaluation holds at a time: enough to be quick, too few to fill the memory."""


class Order:
    """The order in which rows are seen: a new permutation each epoch, the same one on every backend."""

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self.rows = rows
        self.batch_size = min(batch_size, rows)
        self._seed = seed

    @property
    def steps(self) -> int:
        """How many global batches an epoch has."""
        return -(-self.rows // self.batch_size)

    def samples(self, steps: int) -> int:
        """How many rows so many steps see, from the beginning on."""
        epochs, rest = divmod(steps, self.steps)
        return epochs * self.rows + rest * self.batch_size

    def epoch(self, epoch: int) -> tuple[Tensor, ...]:
        """The global batches of an epoch as row numbers; the last one may be shorter.

        Depends on the seed and the epoch alone, so that a run can go on from any place.
        """
        permutation = torch.randperm(self.rows, generator=randomness.generator(self._seed, "order", epoch))
        return torch.split(permutation, self.batch_size)


class Feed:
    """Turns row numbers into tensors.

    Rows in memory are gathered, one gather a shard; others are read through a DataLoader, in `workers` processes.
    """

    def __init__(self, rows: Rows, dtype: torch.dtype, workers: int = 0, seed: int = 0) -> None:
        self.rows = count(rows)
        self._source = tuple(_converted(part, dtype) for part in rows) if isinstance(rows, tuple) else rows
        self._dtype, self._workers, self._seed = dtype, workers, seed

    def __call__(self, steps: Iterable[list[Tensor]], epoch: int = 0) -> Iterator[list[Shard]]:
        """For each step's row numbers, one tensor a shard, the shards themselves.

        epoch: a data set that augments its rows draws other random numbers in each.
        """
        if isinstance(self._source, tuple):
            inputs, targets = self._source
            for parts in steps:
                yield [[(inputs.index_select(0, rows), targets.index_select(0, rows))] for rows in parts]
        else:
            yield from self._load(list(steps), epoch)

    def in_order(self) -> list[Tensor]:
        """All row numbers, in pieces that fit into memory: what an evaluation goes through."""
        return list(torch.split(torch.arange(self.rows), max(1, EVALUATED_AT_ONCE // self._numbers_per_row())))

    def _numbers_per_row(self) -> int:
        # The first row's input, whether the source is a pair of tensors or a list of pairs.
        return max(1, torch.as_tensor(self._source[0][0]).numel())

    def _load(self, steps: list[list[Tensor]], epoch: int) -> Iterator[list[Shard]]:
        source = _SeededRows(self._source, self._seed, epoch)
        loader: DataLoader[Any] = DataLoader(
            source,
            batch_sampler=[rows.tolist() for parts in steps for rows in parts if rows.numel()],
            num_workers=self._workers,
            # The loader draws a seed for its workers, which no row needs; it must not come from the training's stream.
            generator=torch.Generator(),
        )
        batches = iter(loader)
        for parts in steps:
            yield [[self._pair(next(batches) if rows.numel() else source.nothing())] for rows in parts]

    def _pair(self, batch: Any) -> Batch:
        inputs, targets = batch
        return _converted(inputs, self._dtype), _converted(targets, self._dtype)


class _SeededRows(TorchDataset[Any]):
    """A map-style data set each of whose rows is fetched with random numbers of its own.

    So an augmentation depends on seed, epoch and row, and not on which replica or worker fetches the row, or when.
    """

    def __init__(self, rows: Any, seed: int, epoch: int) -> None:
        self._rows, self._seed, self._epoch = rows, seed, epoch

    def __getitem__(self, row: int) -> Any:
        with randomness.drawing(self._seed, f"augmentation/{self._epoch}", row):
            return self._rows[row]

    def nothing(self) -> Batch:
        """A batch of 0 rows."""
        inputs, targets = self[0]
        return torch.as_tensor(inputs)[None][:0], torch.as_tensor(targets)[None][:0]


def _converted(part: Tensor, dtype: torch.dtype) -> Tensor:
    """Floating-point numbers in the experiment's precision; class numbers and the like as they are."""
    return part.to(dtype) if part.is_floating_point() else part


def feeds(dataset: Dataset, dtype: torch.dtype, seed: int) -> dict[str, Feed]:
    """A feed for each split that the data set has."""
    splits = {"train": dataset.train, "test": dataset.test}
    return {name: Feed(rows, dtype, dataset.workers, seed) for name, rows in splits.items() if rows is not None}
