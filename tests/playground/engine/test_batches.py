"""The global order of rows, and the feeds that turn row numbers into tensors."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import TensorDataset

from playground import Dataset
from playground.engine import batches, randomness
from playground.engine.assembly import assembled
from playground.engine.batches import Feed, Order, feeds

from .workbench import Rows, data, experiment, numbers, run, same, train, trained

if TYPE_CHECKING:
    from playground import Shard

BACKENDS = ("single:devices=cpu", "manual:devices=2", "manual:devices=4,reduce=ring")


def flat(order: Order, epoch: int) -> list[int]:
    return torch.cat(order.epoch(epoch)).tolist()


def equal(one: list[list[Shard]], other: list[list[Shard]]) -> bool:
    """Whether two feeds gave the same shards, bit for bit and type for type."""
    pairs = [(a, b) for mine, its in zip(one, other, strict=True) for a, b in zip(mine, its, strict=True)]
    return all(len(a) == len(b) for a, b in pairs) and all(
        x.dtype == y.dtype and torch.equal(x, y)
        for a, b in pairs
        for mine, its in zip(a, b, strict=True)
        for x, y in zip(mine, its, strict=True)
    )


@given(st.integers(1, 100), st.integers(1, 120), st.integers(0, 2**63), st.integers(0, 1000))
@settings(deadline=None, database=None)
def test_an_epoch_has_every_row_once_in_batches_of_which_only_the_last_may_be_shorter(
    rows: int, batch_size: int, seed: int, epoch: int
) -> None:
    cut = Order(rows, batch_size, seed).epoch(epoch)
    assert sorted(torch.cat(cut).tolist()) == list(range(rows))
    assert [len(batch) for batch in cut[:-1]] == [min(batch_size, rows)] * (len(cut) - 1)
    assert 1 <= len(cut[-1]) <= batch_size


def test_each_epoch_has_an_order_of_its_own() -> None:
    order = Order(1500, 10, seed=0)
    orders = {tuple(flat(order, epoch)) for epoch in range(20)}
    assert len(orders) == 20
    assert tuple(range(1500)) not in orders


def test_each_seed_has_an_order_of_its_own() -> None:
    assert len({tuple(flat(Order(1500, 10, seed), 0)) for seed in range(20)}) == 20


def test_an_order_depends_on_seed_and_epoch_alone() -> None:
    visited = Order(100, 10, seed=3)
    for epoch in range(5):
        visited.epoch(epoch)
    torch.manual_seed(1234)
    assert flat(visited, 5) == flat(Order(100, 10, seed=3), 5)
    # The size of a batch only says where the order is cut.
    assert flat(visited, 5) == flat(Order(100, 7, seed=3), 5)


def test_an_order_is_a_permutation_of_the_stream_that_is_named_after_it() -> None:
    expected = torch.randperm(50, generator=randomness.generator(7, "order", 2)).tolist()
    assert flat(Order(50, 8, seed=7), 2) == expected


def test_making_an_order_moves_no_other_random_numbers() -> None:
    before = torch.get_rng_state()
    Order(100, 10, seed=0).epoch(0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    order = Order(7, 1000, seed=0)
    assert order.batch_size == 7
    assert [len(batch) for batch in order.epoch(0)] == [7]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_sees_the_same_rows_in_the_same_order(backend: str) -> None:
    inputs, targets = torch.arange(23.0)[:, None], torch.zeros(23, 1)
    seen = []
    with assembled(experiment(data=data((inputs, targets)), backend=backend, batch_size=5, seed=4)) as parts:
        for epoch in range(3):
            for shards in parts.feeds["train"](parts.backend.shard(rows) for rows in parts.order.epoch(epoch)):
                seen.append([int(value) for shard in shards for part, _ in shard for value in part])
    expected = [batch.tolist() for epoch in range(3) for batch in Order(23, 5, seed=4).epoch(epoch)]
    assert seen == expected


def test_a_feed_gathers_the_rows_that_it_is_asked_for() -> None:
    inputs, targets = numbers(10)
    rows = [torch.tensor([3, 1]), torch.tensor([], dtype=torch.int64), torch.tensor([9])]
    ((first, empty, last),) = Feed((inputs, targets), torch.float64)([rows])
    ((no_inputs, no_targets),) = empty
    assert (no_inputs.shape, no_targets.shape) == ((0, *inputs.shape[1:]), (0, *targets.shape[1:]))
    ((got_inputs, got_targets),) = first
    assert torch.equal(got_inputs, inputs[[3, 1]])
    assert torch.equal(got_targets, targets[[3, 1]])
    assert torch.equal(last[0][0], inputs[[9]])


@pytest.mark.parametrize("style", ["memory", "map"])
def test_numbers_come_in_the_precision_of_the_experiment_and_classes_as_they_are(style: str) -> None:
    rows = (torch.ones(4, 2), torch.arange(4))
    feed = Feed(rows if style == "memory" else Rows(*rows), torch.float64)
    ((((inputs, targets),),),) = feed([[torch.arange(4)]])
    assert (inputs.dtype, targets.dtype) == (torch.float64, torch.int64)


@pytest.mark.parametrize("style", ["memory", "map"])
@pytest.mark.parametrize("at_once", [1, 2, 6, 7, 12, 1000])
def test_an_evaluation_goes_through_every_row_once_in_pieces_that_fit_into_memory(
    style: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "EVALUATED_AT_ONCE", at_once)
    rows = (torch.zeros(11, 2), torch.zeros(11, 1))
    pieces = Feed(rows if style == "memory" else Rows(*rows), torch.float32).in_order()
    assert torch.cat(pieces).tolist() == list(range(11))
    # Never less than a row, however large a row is.
    assert max(len(piece) for piece in pieces) == min(11, max(1, at_once // 2))


def test_each_split_has_a_feed() -> None:
    train_rows, test_rows = numbers(5), numbers(3)
    assert {name: feed.rows for name, feed in feeds(Dataset(train_rows), torch.float32, 0).items()} == {"train": 5}
    both = feeds(Dataset(train_rows, test_rows), torch.float32, 0)
    assert {name: feed.rows for name, feed in both.items()} == {"train": 5, "test": 3}


CUTS = {"even": (5, 5), "uneven": (4, 3, 3), "empty": (1, 1, 0, 0), "one": (10,)}


@pytest.mark.parametrize("sizes", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("workers", [0, 1])
def test_a_map_style_data_set_gives_the_same_shards_as_tensors_in_memory(sizes: tuple[int, ...], workers: int) -> None:
    inputs, targets = numbers(25)
    steps = [
        list(rows.split(list(sizes))) for rows in Order(25, sum(sizes), seed=1).epoch(0) if len(rows) == sum(sizes)
    ]
    in_memory = list(Feed((inputs, targets), torch.float32)(steps))
    assert equal(list(Feed(Rows(inputs, targets), torch.float32, workers)(steps)), in_memory)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch_size", [10, 7, 3])
def test_training_on_a_map_style_data_set_equals_training_in_memory(backend: str, batch_size: int) -> None:
    inputs, targets = numbers(25)
    words = {"backend": backend, "batch_size": batch_size, "optimizer": "adam", "epochs": 2, "eval_every": 10}
    in_memory = train(data=data((inputs, targets), (inputs[:4], targets[:4])), **words)
    loaded = train(data=data(TensorDataset(inputs, targets), TensorDataset(inputs[:4], targets[:4])), **words)
    assert same(loaded.model, in_memory.model)
    assert loaded.losses == in_memory.losses
    assert [one["test_loss"] for one in loaded.records] == [one["test_loss"] for one in in_memory.records]


def test_a_worker_process_reads_the_same_rows() -> None:
    inputs, targets = numbers(25)
    words = {"backend": "manual:devices=3", "batch_size": 7, "epochs": 2}
    assert same(
        train(data=data(Rows(inputs, targets), workers=1), **words).model,
        train(data=data((inputs, targets)), **words).model,
    )


def test_a_training_that_ends_early_leaves_no_worker_process() -> None:
    inputs, targets = numbers(200)
    rows = data(Rows(inputs, targets), workers=1)
    ended = run(data=rows, model="mlp", backend="single:devices=cpu", lr=1e6, batch_size=2, eval_every=20)
    assert ended.status == "diverged"
    assert ended.samples < 200
    assert multiprocessing.active_children() == []


def noisy(workers: int = 0) -> object:
    """Rows whose inputs are augmented: a little noise each time that a row is read."""
    inputs, targets = numbers(30)
    return data(Rows(inputs, targets, lambda row: row + 0.1 * torch.randn_like(row)), workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_augmentation_depends_on_the_seed_and_not_on_the_callers_random_numbers(backend: str, workers: int) -> None:
    words = {"data": noisy(workers), "backend": backend, "batch_size": 7}
    torch.manual_seed(1)
    once = trained(5, **words)
    torch.manual_seed(2)
    assert same(trained(5, **words), once)
    assert not same(trained(5, seed=1, **words), once)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_augmentation_is_the_same_on_every_backend(workers: int) -> None:
    words = {"data": noisy(workers), "batch_size": 7, "dtype": "float64"}
    expected = trained(5, backend="single:devices=cpu", **words)
    for backend in BACKENDS[1:]:
        found = trained(5, backend=backend, **words)
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-12)


def test_augmentation_is_new_in_each_epoch() -> None:
    inputs: list[Tensor] = []
    feed = Feed(Rows(*numbers(6), lambda row: row + torch.randn_like(row)), torch.float64)
    for epoch in range(2):
        ((((rows, _),),),) = feed([[torch.arange(6)]], epoch)
        inputs.append(rows)
    assert not torch.equal(*inputs)


@pytest.mark.parametrize("workers", [0, 1])
def test_augmentation_leaves_the_random_numbers_of_dropout_alone(workers: int) -> None:
    inputs, targets = numbers(30)
    words = {"model": "mlp:dropout=0.5,hidden=[8]", "backend": "single:devices=cpu", "batch_size": 7}

    def drawing(row: Tensor) -> Tensor:
        torch.rand(3)
        return row

    plain = trained(5, data=data(Rows(inputs, targets), workers=workers), **words)
    assert same(trained(5, data=data(Rows(inputs, targets, drawing), workers=workers), **words), plain)
