import copy
import subprocess
import sys
import typing

import pytest
import torch
from playground_plugins.models import playground_models
from playground_plugins.models.lenet import lenet
from playground_plugins.models.linear import linear
from playground_plugins.models.mlp import ACTIVATIONS, mlp
from playground_plugins.models.resnet18 import resnet18
from torch import nn

from playground.components import resolve

SHAPES = [(), (1,), (5,), (3, 4), (1, 28, 28)]


def test_the_plugin_lists_its_models_without_importing_torch():
    code = "import sys, playground_plugins.models as m; m.playground_models(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_linear_is_the_default_and_alone_said_to_be_affine():
    models = {one.name: one for one in playground_models()}
    assert [name for name, one in models.items() if one.default] == ["linear"]
    assert [name for name, one in models.items() if one.affine] == ["linear"]
    factories = {"linear": linear, "mlp": mlp, "lenet": lenet, "resnet18": resnet18}
    assert {name: resolve(one.factory) for name, one in models.items()} == factories
    assert all(one.summary for one in models.values())


@pytest.mark.parametrize("factory", [linear, mlp])
@pytest.mark.parametrize("inputs", SHAPES)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_of_any_shape_give_a_row_of_outputs_each(factory, inputs, rows):
    assert factory(inputs, 3)(torch.randn(rows, *inputs)).shape == (rows, 3)


@pytest.mark.parametrize("factory", [linear, mlp])
def test_the_weights_come_from_the_default_generator_alone(factory):
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(factory((4,), 2).state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name])
    assert any(not torch.equal(value, states[2][name]) for name, value in states[0].items())


@pytest.mark.parametrize("factory", [linear, mlp])
def test_a_model_can_be_copied_and_the_copy_shares_nothing(factory):
    model = factory((4,), 2)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    rows = torch.randn(3, 4)
    assert not torch.equal(model(rows), twin(rows))


# linear


@pytest.mark.parametrize("inputs", SHAPES)
def test_linear_has_one_weight_and_one_bias_whatever_the_shape_of_a_row(inputs):
    features = torch.Size(inputs).numel()
    assert {name: tuple(value.shape) for name, value in linear(inputs, 3).named_parameters()} == {
        "weight": (3, features),
        "bias": (3,),
    }


def test_linear_without_bias_has_one_matrix():
    assert {name: tuple(value.shape) for name, value in linear((5,), 1, bias=False).named_parameters()} == {
        "weight": (1, 5)
    }


def test_linear_starts_with_small_normal_weights_and_no_bias():
    torch.manual_seed(0)
    model = linear((200,), 100)
    assert model.weight.mean().abs() < 3e-4
    assert model.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert (model.weight.abs() < 0.01).double().mean().item() == pytest.approx(0.683, abs=0.015)
    assert torch.equal(model.bias, torch.zeros(100))


def test_linear_draws_nothing_but_its_weights():
    torch.manual_seed(0)
    model = linear((5,), 4)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(model.weight, torch.empty(4, 5).normal_(std=0.01))
    assert torch.equal(torch.get_rng_state(), after)


def test_linear_computes_a_weighted_sum_of_all_numbers_of_a_row():
    model = linear((2, 3), 2)
    rows = torch.randn(4, 2, 3)
    with torch.no_grad():
        model.bias.copy_(torch.tensor([1.0, -2.0]))
    expected = torch.stack([(row.flatten() * model.weight).sum(dim=1) + model.bias for row in rows])
    torch.testing.assert_close(model(rows), expected)


@pytest.mark.parametrize("factory", [linear, mlp])
def test_rows_of_another_size_are_an_error_and_never_regrouped(factory):
    with pytest.raises(RuntimeError):
        factory((5,), 1)(torch.randn(5, 4))


# mlp


def test_mlp_has_one_hidden_layer_of_64_unless_told_otherwise():
    assert {name: tuple(value.shape) for name, value in mlp((5,), 1).named_parameters()} == {
        "linear1.weight": (64, 5),
        "linear1.bias": (64,),
        "output.weight": (1, 64),
        "output.bias": (1,),
    }


def test_mlp_keeps_the_names_of_its_layers_when_others_come_and_go():
    plain = [name for name, _ in mlp((6,), 1, hidden=(4, 3)).named_parameters()]
    assert plain == [f"{layer}.{kind}" for layer in ("linear1", "linear2", "output") for kind in ("weight", "bias")]
    other = mlp((2, 3), 1, hidden=(4, 3), dropout=0.5, activation="tanh", batch_norm=True)
    names = [name for name, _ in other.named_parameters()]
    assert [name for name in names if not name.startswith("norm")] == plain


def test_mlp_without_hidden_layers_is_linear():
    model = mlp((5,), 2, hidden=())
    assert [name for name, _ in model.named_parameters()] == ["output.weight", "output.bias"]
    rows, others = torch.randn(3, 5), torch.randn(3, 5)
    zero = model(torch.zeros(3, 5))
    torch.testing.assert_close(model(rows + others) - zero, (model(rows) - zero) + (model(others) - zero))


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("tanh", torch.tanh),
        ("sigmoid", lambda x: 1 / (1 + torch.exp(-x))),
        ("gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_mlp_applies_the_activation_after_each_hidden_layer(activation, function):
    model = mlp((5,), 2, hidden=(4, 3), activation=activation)
    rows = torch.randn(6, 5)
    hidden = function(rows @ model.linear1.weight.T + model.linear1.bias)
    hidden = function(hidden @ model.linear2.weight.T + model.linear2.bias)
    torch.testing.assert_close(model(rows), hidden @ model.output.weight.T + model.output.bias)


def test_every_activation_that_can_be_asked_for_is_known():
    assert typing.get_args(typing.get_type_hints(mlp)["activation"]) == tuple(ACTIVATIONS)


def test_mlp_normalises_before_the_activation_and_drops_after_it():
    kinds = [type(layer) for layer in mlp((5,), 1, hidden=(4,), dropout=0.5, batch_norm=True)]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout, nn.Linear]


def test_mlp_drops_the_share_asked_for_in_training_and_nothing_in_evaluation():
    torch.manual_seed(0)
    model = mlp((5,), 1, hidden=(10_000,), dropout=0.3)[:-1]
    rows = torch.ones(1, 5)
    kept = model.eval()(rows)
    dropped = model.train()(rows)
    alive = kept != 0
    assert (dropped[alive] == 0).double().mean().item() == pytest.approx(0.3, abs=0.03)
    assert torch.equal(model.eval()(rows), kept)


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"hidden": (0,)}, "hidden must be sizes of 1 or more, not 0"),
        ({"hidden": (8, -3)}, "hidden must be sizes of 1 or more, not -3"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, not -0.1"),
        ({"dropout": float("nan")}, "dropout must be at least 0 and below 1, not nan"),
        ({"activation": "sine"}, "activation must be one of relu, tanh, sigmoid, gelu, silu, not 'sine'"),
    ],
)
def test_mlp_refuses_values_out_of_range_in_one_line(parameters, what):
    with pytest.raises(ValueError, match="must be") as caught:
        mlp((5,), 1, **parameters)
    assert str(caught.value) == what
