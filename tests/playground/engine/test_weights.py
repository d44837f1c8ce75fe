"""A model's parameters and buffers, for people to read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from playground.engine.weights import FEW, describe, lines


def test_few_numbers_are_shown_themselves() -> None:
    weights = {"weight": torch.tensor([[5.2, -9.6]], dtype=torch.float64), "bias": torch.tensor([3.0])}
    assert describe(weights) == {
        "weight": {"shape": [1, 2], "values": [[5.2, -9.6]]},
        "bias": {"shape": [1], "values": [3.0]},
    }
    assert lines(weights) == ["weight [1, 2]: 5.2 -9.6", "bias [1]: 3"]


def test_of_many_numbers_their_statistics_are_shown() -> None:
    # The numbers from 0 to 20: their variance, divided by how many there are, is (21² − 1) ÷ 12.
    many = {"weight": torch.arange(FEW + 1.0).reshape(3, 7)}
    (found,) = describe(many).values()
    assert found == {"shape": [3, 7], "mean": 10, "std": pytest.approx(math.sqrt(440 / 12)), "min": 0, "max": 20}
    assert lines(many) == ["weight [3, 7]: mean 10  std 6.055  min 0  max 20"]


@pytest.mark.parametrize(("count", "kind"), [(FEW - 1, "values"), (FEW, "values"), (FEW + 1, "mean")])
def test_up_to_twenty_are_few(count: int, kind: str) -> None:
    assert FEW == 20
    assert kind in describe({"one": torch.zeros(count)})["one"]


def test_statistics_are_computed_in_float64() -> None:
    # In float32 the sum would stop growing at 2²⁴, and the squares would not fit into float16.
    large = torch.full((2**24 + 2**20,), 1.0)
    assert describe({"one": large})["one"]["mean"] == 1
    half = torch.tensor([60000.0, -60000.0] * FEW, dtype=torch.float16)
    found = describe({"one": half})["one"]
    assert (found["mean"], found["std"]) == (0, abs(float(half[0])))


@pytest.mark.parametrize(
    ("value", "shown", "line"),
    [
        (torch.tensor(3), {"shape": [], "values": 3}, "one []: 3"),
        (torch.zeros(0, 5), {"shape": [0, 5], "values": []}, "one [0, 5]: "),
        (torch.tensor([True, False]), {"shape": [2], "values": [True, False]}, "one [2]: 1 0"),
        (torch.tensor([1e-9, 123456789.0]), None, "one [2]: 1e-09 1.23457e+08"),
        (torch.tensor([math.nan, -math.inf]), None, "one [2]: nan -inf"),
    ],
    ids=["scalar", "empty", "bool", "far apart", "not finite"],
)
def test_values_of_any_form_can_be_shown(value: torch.Tensor, shown: Any, line: str) -> None:
    assert lines({"one": value}) == [line]
    if shown is not None:
        assert describe({"one": value})["one"] == shown


def test_buffers_are_shown_beside_the_parameters_in_the_order_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    shown = lines(model.state_dict())
    assert [line.split(" ")[0] for line in shown] == list(model.state_dict())
    assert "1.num_batches_tracked []: 0" in shown
    json.dumps(describe(model.state_dict()), allow_nan=False)
