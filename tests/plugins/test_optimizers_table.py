import inspect
import subprocess
import sys

import pytest
import torch
from playground_plugins.optimizers import playground_optimizers
from torch import nn

from playground.components import resolve

TABLE = {one.name: one for one in playground_optimizers()}

BOOK = {
    "sgd": {"lr": 0.01},
    "momentum": {"lr": 0.005, "momentum": 0.9},
    "adagrad": {"lr": 0.1},
    "rmsprop": {"lr": 0.01, "alpha": 0.9},
    "adam": {"lr": 0.01},
}


def build(name, parameters, **changes):
    component = TABLE[name]
    return resolve(component.factory)(parameters, **{**component.defaults, **changes})


def after_steps(name, start, gradients, **changes):
    """Where a few numbers end, in float64, after a step along each of the gradients."""
    weights = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = build(name, [weights], **changes)
    for gradient in gradients:
        weights.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return weights.tolist()


def test_the_plugin_lists_its_optimizers_without_importing_torch():
    code = "import sys, playground_plugins.optimizers as o; o.playground_optimizers(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_name_is_listed_twice():
    assert len(TABLE) == len(playground_optimizers())


def test_every_optimizer_of_torch_for_dense_gradients_is_in_the_table_and_the_sparse_one_is_not():
    torchs = {
        value
        for value in vars(torch.optim).values()
        if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    assert torch.optim.SparseAdam in torchs
    assert {resolve(one.factory) for one in TABLE.values()} == torchs - {torch.optim.SparseAdam}


@pytest.mark.parametrize("name", TABLE)
def test_an_optimizer_goes_by_the_lower_case_name_of_its_class(name):
    factory = resolve(TABLE[name].factory)
    assert factory.__name__.lower() == ("sgd" if name == "momentum" else name)


@pytest.mark.parametrize("name", TABLE)
def test_every_optimizer_says_what_it_is_in_one_line(name):
    assert 10 < len(TABLE[name].summary) < 100
    assert "\n" not in TABLE[name].summary


def test_sgd_alone_is_the_default():
    assert [name for name, one in TABLE.items() if one.default] == ["sgd"]


@pytest.mark.parametrize("name", TABLE)
def test_an_optimizer_has_the_books_hyperparameters_or_else_torchs(name):
    assert TABLE[name].defaults == BOOK.get(name, {})


@pytest.mark.parametrize("name", TABLE)
def test_its_defaults_reach_the_optimizer_and_the_rest_is_torchs(name):
    (group,) = build(name, [nn.Parameter(torch.zeros(2, 3))]).param_groups
    signature = inspect.signature(resolve(TABLE[name].factory)).parameters
    expected = {key: one.default for key, one in signature.items() if key != "params"} | dict(TABLE[name].defaults)
    # None stands for a value that the optimizer works out itself.
    assert {key: group[key] for key, value in expected.items() if value is not None} == {
        key: value for key, value in expected.items() if value is not None
    }
    assert group["lr"] > 0


@pytest.mark.parametrize("name", TABLE)
def test_a_default_can_be_changed(name):
    assert build(name, [nn.Parameter(torch.zeros(2, 3))], lr=0.125).param_groups[0]["lr"] == 0.125


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if not one.closure])
def test_an_optimizer_lowers_a_simple_loss_with_its_defaults(name):
    weights = nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 0.5]]))
    optimizer = build(name, [weights])
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (weights**2).sum() / 2
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_only_an_optimizer_that_needs_a_closure_says_so():
    def needs_closure(name):
        weights = nn.Parameter(torch.ones(2, 2))
        weights.grad = torch.ones(2, 2)
        try:
            build(name, [weights]).step()
        except TypeError:
            return True
        return False

    assert {name for name in TABLE if needs_closure(name)} == {name for name, one in TABLE.items() if one.closure}
    assert TABLE["lbfgs"].closure


def test_muon_says_that_it_takes_matrices_only_and_refuses_anything_else():
    assert "matrices only" in TABLE["muon"].summary
    assert "linear:bias=false" in TABLE["muon"].summary
    with pytest.raises(ValueError, match="2D"):
        build("muon", [nn.Parameter(torch.zeros(3))])


def test_momentum_adds_nine_tenths_of_the_last_velocity():
    # v₁ = 2; v₂ = 0.9 · 2 + 1 = 2.8; w = 1 − 0.005 (2 + 2.8)
    assert after_steps("momentum", [1.0], [[2.0], [1.0]]) == pytest.approx([1 - 0.005 * 4.8], abs=1e-15)


def test_adagrad_divides_by_the_root_of_the_sum_of_squares():
    # s₁ = 9; s₂ = 9 + 16 = 25
    expected = 1 - 0.1 * 3 / 3 - 0.1 * 4 / 5
    assert after_steps("adagrad", [1.0], [[3.0], [4.0]]) == pytest.approx([expected], abs=1e-9)


def test_rmsprop_divides_by_the_root_of_a_mean_that_forgets_a_tenth():
    # s₁ = 0.1 · 9 = 0.9; s₂ = 0.9 · 0.9 + 0.1 · 16 = 2.41
    expected = 1 - 0.01 * 3 / 0.9**0.5 - 0.01 * 4 / 2.41**0.5
    assert after_steps("rmsprop", [1.0], [[3.0], [4.0]]) == pytest.approx([expected], abs=1e-9)


def test_adam_adds_weight_decay_to_the_gradient_and_adamw_shrinks_the_weights_by_themselves():
    """One step from 2 with gradient −0.1, lr 0.1 and weight_decay 0.1, by hand; bias-corrected, it is ± lr.

    Adam's gradient becomes −0.1 + 0.1 · 2 = 0.1, so the step turns round: 2 − 0.1. AdamW shrinks the weight to
    2 (1 − 0.1 · 0.1) = 1.98 and takes the step of the bare gradient: 1.98 + 0.1.
    """
    settings = {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}
    step = 0.1 * 0.1 / (0.1 + 1e-8)
    assert after_steps("adam", [2.0], [[-0.1]], **settings) == pytest.approx([2 - step], abs=1e-12)
    assert after_steps("adamw", [2.0], [[-0.1]], **settings) == pytest.approx([1.98 + step], abs=1e-12)


def test_adam_and_adamw_without_weight_decay_are_the_same():
    gradients = [[0.3, -2.0], [1.0, 0.5], [-0.2, 0.1]]
    same = {"lr": 0.1, "weight_decay": 0.0}
    assert after_steps("adam", [1.0, 2.0], gradients, **same) == after_steps("adamw", [1.0, 2.0], gradients, **same)


def test_the_summaries_tell_an_l2_penalty_from_decoupled_weight_decay():
    assert "L2" in TABLE["adam"].summary
    assert "decoupled weight decay" in TABLE["adamw"].summary
