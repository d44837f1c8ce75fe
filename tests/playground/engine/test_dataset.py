"""What a data component gives: rows in memory or map-style, their shapes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from playground import ComponentError, Data, Dataset
from playground.engine.assembly import assembled
from playground.engine.dataset import count

from .workbench import Rows, data, experiment, numbers, run

STYLES = {"memory": lambda inputs, targets: (inputs, targets), "map": Rows, "torch": TensorDataset}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_rows_inputs_and_outputs_are_read_off_the_training_rows(style: Any) -> None:
    dataset = Dataset(style(torch.zeros(7, 3, 4), torch.zeros(7, 2)), style(torch.zeros(2, 3, 4), torch.zeros(2, 2)))
    assert (dataset.rows, dataset.inputs, dataset.outputs) == (7, (3, 4), 2)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_a_classification_has_an_output_a_class(style: Any) -> None:
    rows = style(torch.zeros(7, 5), torch.zeros(7, dtype=torch.int64))
    assert Dataset(rows, task="classification", classes=10).outputs == 10


def test_rows_of_single_numbers_have_an_empty_shape_and_one_output() -> None:
    dataset = Dataset((torch.zeros(7), torch.zeros(7)))
    assert (dataset.inputs, dataset.outputs) == ((), 1)


def test_rows_are_counted_wherever_they_are() -> None:
    inputs, targets = numbers(9)
    assert count((inputs, targets)) == count(Rows(inputs, targets)) == 9


@pytest.mark.parametrize("split", ["train", "test"])
def test_inputs_and_targets_of_different_length_are_refused_with_both(split: str) -> None:
    good, bad = numbers(4), (torch.zeros(5, 2), torch.zeros(3, 1))
    with pytest.raises(ValueError, match=f"{split} has 5 rows of inputs and 3 of targets"):
        Dataset(bad) if split == "train" else Dataset(good, bad)


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_as_they_are_stored_are_refused_with_what_to_do(split: str) -> None:
    stored = (torch.full((4, 1, 5, 5), 255, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    good = (stored[0].float() / 255, stored[1])
    with pytest.raises(TypeError, match=rf"^{split} has inputs of uint8; make floats of them: .* \.float\(\) / 255"):
        Dataset(*((stored, good) if split == "train" else (good, stored)), task="classification", classes=10)
    assert Dataset(good, good, task="classification", classes=10).inputs == (1, 5, 5)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_without_rows_is_refused(split: str, style: Any) -> None:
    good, bad = style(*numbers(4)), style(torch.zeros(0, 2), torch.zeros(0, 1))
    with pytest.raises(ValueError, match=f"{split} has no rows"):
        Dataset(bad) if split == "train" else Dataset(good, bad)


def test_a_task_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="ranking"):
        Dataset(numbers(4), task="ranking")


@pytest.mark.parametrize("classes", [None, 0])
def test_a_classification_without_its_number_of_classes_is_refused(classes: int | None) -> None:
    with pytest.raises(ValueError, match="number of classes"):
        Dataset((torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)), task="classification", classes=classes)


def test_data_that_do_not_fit_together_name_their_component() -> None:
    broken = data((torch.zeros(5, 2), torch.zeros(3, 1)))
    with pytest.raises(ComponentError, match="made-here") as caught, assembled(experiment(data=broken)):
        pass
    assert "5 rows of inputs and 3 of targets" in str(caught.value)


def test_a_data_component_that_gives_something_else_is_refused() -> None:
    with (
        pytest.raises(ComponentError, match="gives a tuple, not a Dataset"),
        assembled(experiment(data=Data("made-here", lambda: numbers(4)))),
    ):
        pass


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (1, 5, 5)])
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_rows_of_any_shape_can_be_trained_on(shape: tuple[int, ...], style: Any) -> None:
    inputs = torch.randn(12, *shape, generator=torch.Generator().manual_seed(0))
    ended = run(data=data(style(inputs, inputs.reshape(12, -1)[:, :1])), backend="manual:devices=3", batch_size=5)
    assert ended.status == "done"
    assert ended.metrics["train_loss"] < ended.history[0]["train_loss"]
