import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playground_plugins.data import playground_data
from playground_plugins.data.linear_regression import load

from playground import RequestError

MODERATE = st.floats(-100, 100)


def test_linear_regression_says_what_suits_it_and_that_it_is_made():
    (component,) = (one for one in playground_data() if one.name == "linear-regression")
    assert component.settings == {"model": "linear", "batch_size": 10, "epochs": 4, "eval_every": 200}
    assert component.origin == "synthetic"
    assert component.locate() is None
    assert not component.default


def test_rows_are_float32_and_have_a_feature_for_each_weight():
    data = load(rows=7, weights=(1.0, 2.0, 3.0))
    inputs, targets = data.train
    assert inputs.shape == (7, 3)
    assert targets.shape == (7, 1)
    assert inputs.dtype == targets.dtype == torch.float32
    assert data.test is None
    assert data.task == "regression"
    assert (data.inputs, data.outputs) == ((3,), 1)


def test_without_parameters_there_are_200_rows_of_the_default_model():
    inputs, targets = load().train
    assert inputs.shape == (200, 2)
    expected = 5.2 * inputs[:, :1] + 9.6 * inputs[:, 1:] + 3.4
    torch.testing.assert_close(targets, expected)


@settings(deadline=None)
@given(weights=st.lists(MODERATE, min_size=1, max_size=5), bias=MODERATE, seed=st.integers(0, 2**63 - 1))
def test_without_noise_targets_are_exactly_those_of_the_model(weights, bias, seed):
    inputs, targets = load(rows=5, weights=tuple(weights), bias=bias, seed=seed).train
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        products = [value * weight for value, weight in zip(row, weights, strict=True)]
        size = sum(map(abs, products)) + abs(bias)
        assert target[0] == pytest.approx(math.fsum([*products, bias]), rel=2**-24, abs=2**-40 * size + 2**-149)


def test_inputs_are_standard_normal():
    inputs, _ = load(rows=20_000).train
    torch.testing.assert_close(inputs.mean(dim=0), torch.zeros(2), rtol=0, atol=0.03)
    torch.testing.assert_close(inputs.std(dim=0), torch.ones(2), rtol=0, atol=0.03)
    assert torch.corrcoef(inputs.T)[0, 1].abs() < 0.03


def test_noise_is_normal_with_the_deviation_asked_for_and_independent_of_the_inputs():
    inputs, targets = load(rows=20_000, noise=0.5).train
    error = targets[:, 0] - (5.2 * inputs[:, 0] + 9.6 * inputs[:, 1] + 3.4)
    assert error.mean().abs() < 0.02
    assert error.std().item() == pytest.approx(0.5, rel=0.03)
    assert (error.abs() < 0.5).double().mean().item() == pytest.approx(0.683, abs=0.02)
    assert torch.corrcoef(torch.stack([error, inputs[:, 0]]))[0, 1].abs() < 0.03


def test_the_same_seed_makes_the_same_rows_and_another_seed_others():
    first, again, other = (load(noise=0.1, seed=seed).train for seed in (3, 3, 4))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])


def test_noise_weights_and_bias_leave_the_inputs_as_they_are():
    assert torch.equal(load().train[0], load(noise=2.0, weights=(1.0, -1.0), bias=0.0).train[0])


def test_making_rows_moves_no_random_stream_but_its_own():
    before = torch.get_rng_state()
    load(noise=0.1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"rows": 0}, "rows must be 1 or more, not 0"),
        ({"rows": -5}, "rows must be 1 or more, not -5"),
        ({"weights": ()}, "weights must have a number for each feature"),
        ({"weights": (1.0, math.inf)}, "weights must be finite, not inf"),
        ({"weights": (math.nan,)}, "weights must be finite, not nan"),
        ({"bias": -math.inf}, "bias must be finite, not -inf"),
        ({"noise": math.nan}, "noise must be finite, not nan"),
        ({"noise": math.inf}, "noise must be finite, not inf"),
        ({"noise": -0.1}, "noise is a standard deviation and must be 0 or more, not -0.1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**64}, "seed must be at least 0"),
        ({"weights": (1e300,)}, "the targets do not fit into float32"),
    ],
)
def test_values_out_of_range_are_refused_in_one_line(parameters, what):
    with pytest.raises(RequestError) as caught:
        load(**parameters)
    assert what in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
