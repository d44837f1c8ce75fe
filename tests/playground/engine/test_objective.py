"""Losses and metrics as sums over rows: one definition, trained and logged; and no shape is ever broadcast."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path

import playground_plugins.data
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playground_plugins.data.airfoil import load
from torch import Tensor

from playground import RequestError
from playground.engine.assembly import assembled
from playground.engine.objective import CrossEntropy, HalfSquaredError, Objective, objective_for

from .workbench import ZERO, data, experiment, numbers, replicas, run, take_steps

WHOLE = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), max_size=30)


def column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(-1, 1)


def standardised_target() -> list[float]:
    """The target that airfoil trains on, read and standardised without torch."""
    lines = Path(playground_plugins.data.AIRFOIL).read_text(encoding="utf-8").splitlines()
    levels = [float(line.split("\t")[5]) for line in lines]
    mean, deviation = statistics.fmean(levels), statistics.pstdev(levels)
    return [(level - mean) / deviation for level in levels[:1500]]


def test_the_loss_of_a_regression_is_half_the_squared_error_summed_over_rows() -> None:
    # ½ (1² + 2²)
    assert HalfSquaredError().loss(column([1, 2]), column([0, 4])).item() == 2.5


def test_several_columns_of_a_row_are_averaged() -> None:
    # ½ (1² + 2²) / 2 + ½ (3² + 5²) / 2
    outputs, targets = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.zeros(2, 2)
    assert HalfSquaredError().loss(outputs, targets).item() == 1.25 + 8.5


def test_the_mean_over_rows_is_half_of_torchs_mean_squared_error() -> None:
    outputs, targets = torch.randn(2, 13, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.nn.functional.mse_loss(outputs, targets) / 2
    assert HalfSquaredError().loss(outputs, targets).item() / 13 == pytest.approx(expected.item(), rel=1e-14)


def test_zero_weights_on_airfoil_have_the_loss_that_an_independent_computation_gives() -> None:
    targets = standardised_target()
    independent = sum(value**2 for value in targets) / len(targets) / 2
    assert independent == pytest.approx(ZERO, abs=5e-6)
    rows = load().train[1].double()
    # The data are rounded to float32: six digits and a bit of each of the targets.
    assert HalfSquaredError().loss(torch.zeros_like(rows), rows).item() / 1500 == pytest.approx(independent, rel=1e-7)


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=3"])
def test_what_is_logged_is_half_the_mean_squared_error_of_an_independent_computation(backend: str) -> None:
    ended = run(backend=backend, epochs=1, dtype="float64", eval_every=1500)
    with assembled(experiment(backend=backend, dtype="float64")) as parts:
        take_steps(parts, 150)
        weight, bias = parts.backend.state_dict()["model"].values()
    inputs, targets = (part.double() for part in load().train)
    outputs = (inputs * weight).sum(dim=1) + bias
    expected = math.fsum((outputs - targets[:, 0]).square().tolist()) / 1500 / 2
    assert ended.metrics["train_loss"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2", "manual:devices=4,reduce=ring"])
def test_the_gradient_of_a_step_is_that_of_the_logged_loss(backend: str) -> None:
    inputs, targets = numbers(11)
    asked = experiment(data=data((inputs, targets)), backend=backend, optimizer="sgd", batch_size=11, dtype="float64")
    with assembled(asked) as parts:
        before = parts.backend.state_dict()["model"]
        (result,) = take_steps(parts, 1)
        gradients = [parameter.grad for parameter in replicas(parts)[0].parameters]
    errors = inputs @ before["weight"].T + before["bias"] - targets
    # d/dw of Σ ½ e² / N is Σ e x / N; plain MSE would have twice that.
    expected = [(errors.T @ inputs) / 11, errors.sum(dim=0) / 11]
    for gradient, value in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, value, rtol=1e-13, atol=1e-15)
    assert result.loss.item() == pytest.approx(errors.square().sum().item() / 2, rel=1e-13)


@given(WHOLE, st.data())
@settings(deadline=None, database=None)
def test_the_loss_of_the_whole_is_the_sum_of_the_losses_of_its_parts(
    rows: list[tuple[int, int]], draw: st.DataObject
) -> None:
    outputs, targets = column([one for one, _ in rows]), column([other for _, other in rows])
    cut = draw.draw(st.integers(0, len(rows)))
    loss = HalfSquaredError().loss
    parts = loss(outputs[:cut], targets[:cut]) + loss(outputs[cut:], targets[cut:])
    # Whole numbers and halves are exact in float64.
    assert loss(outputs, targets).item() == parts.item() == sum((one - other) ** 2 for one, other in rows) / 2


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [((4, 1), (4,)), ((4,), (4, 1)), ((4, 2), (4, 1)), ((4, 1), (1, 1)), ((4, 1), (3, 1)), ((4, 1), (4, 1, 1))],
)
def test_outputs_and_targets_of_different_shapes_are_an_error_that_shows_both(
    outputs: tuple[int, ...], targets: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=re.escape(str(outputs))) as caught:
        HalfSquaredError().loss(torch.zeros(outputs), torch.zeros(targets))
    assert str(targets) in str(caught.value)


def test_outputs_and_targets_without_columns_are_as_good_as_with_one() -> None:
    outputs, targets = torch.arange(5.0), torch.ones(5)
    with_columns = HalfSquaredError().loss(outputs[:, None], targets[:, None])
    assert HalfSquaredError().loss(outputs, targets).item() == with_columns.item() == 7.5


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_target_without_columns_is_refused_before_anything_is_written(
    backend: str, split: str, tmp_path: Path
) -> None:
    good = numbers(40)
    bad = (good[0], good[1].squeeze(1))
    rows = data(bad) if split == "train" else data(good, bad)
    with pytest.raises(RequestError) as caught:
        run(tmp_path / "runs", data=rows, backend=backend, batch_size=40)
    shapes = ("(40, 1)", "(40,)") if backend.startswith("single") else ("(20, 1)", "(20,)")
    assert all(shape in str(caught.value) for shape in shapes)
    assert list(tmp_path.iterdir()) == []


def test_cross_entropy_is_the_negative_log_of_the_probability_of_the_class_summed_over_rows() -> None:
    # softmax(0, ln 3) = (¼, ¾)
    outputs = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]], dtype=torch.float64)
    expected = -math.log(3 / 4) - math.log(1 / 4)
    assert CrossEntropy().loss(outputs, torch.tensor([1, 0])).item() == pytest.approx(expected, rel=1e-14)


def test_equal_outputs_cost_the_log_of_the_number_of_classes_a_row() -> None:
    loss = CrossEntropy().loss(torch.zeros(7, 10, dtype=torch.float64), torch.arange(7))
    assert loss.item() == pytest.approx(7 * math.log(10), rel=1e-14)


def test_accuracy_counts_the_rows_whose_class_has_the_largest_output() -> None:
    outputs = torch.tensor([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0], [0.0, 1.0, 2.0]])
    assert CrossEntropy().metrics(outputs, torch.tensor([1, 1, 2]))["accuracy"].item() == 2


@pytest.mark.parametrize(("outputs", "targets"), [((4, 3), (4, 1)), ((4, 3), (3,)), ((4,), (4,)), ((4, 3, 1), (4,))])
def test_classes_of_another_shape_are_an_error_that_shows_both(
    outputs: tuple[int, ...], targets: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=re.escape(str(outputs))) as caught:
        CrossEntropy().loss(torch.zeros(outputs), torch.zeros(targets, dtype=torch.int64))
    assert str(targets) in str(caught.value)


@pytest.mark.parametrize("objective", [HalfSquaredError(), CrossEntropy()])
def test_no_rows_have_no_loss(objective: Objective) -> None:
    columns, kind = (1, torch.float32) if isinstance(objective, HalfSquaredError) else (3, torch.int64)
    targets = torch.zeros((0, 1) if columns == 1 else (0,), dtype=kind)
    assert objective.loss(torch.zeros(0, columns), targets).item() == 0
    assert all(value.item() == 0 for value in objective.metrics(torch.zeros(0, columns), targets).values())


def test_each_task_has_its_objective() -> None:
    assert isinstance(objective_for("regression"), HalfSquaredError)
    assert isinstance(objective_for("classification"), CrossEntropy)


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=3"])
def test_classes_are_learnt_and_their_accuracy_is_a_share_of_the_rows(backend: str) -> None:
    inputs, _ = numbers(50)
    classes = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
    rows = data((inputs, classes), (inputs[:7], classes[:7]), task="classification", classes=3)
    ended = run(data=rows, backend=backend, batch_size=7, epochs=30, lr=0.5, dtype="float64")
    assert ended.history[0]["train_loss"] == pytest.approx(math.log(3), abs=0.05)
    assert ended.metrics["train_loss"] < 0.5
    accuracies = {name: value for name, value in ended.metrics.items() if name.endswith("accuracy")}
    assert accuracies.keys() == {"train_accuracy", "test_accuracy"}
    assert accuracies["train_accuracy"] * 50 == pytest.approx(round(accuracies["train_accuracy"] * 50), abs=1e-9)
    assert accuracies["test_accuracy"] * 7 == pytest.approx(round(accuracies["test_accuracy"] * 7), abs=1e-9)
    assert accuracies["train_accuracy"] > 0.7
