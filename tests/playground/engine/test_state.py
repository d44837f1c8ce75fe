"""What a state holds, who can load it, and that training goes on from it as if it had never been interrupted."""

from __future__ import annotations

import copy
import functools
import io
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from playground import Model
from playground.engine.assembly import assembled
from playground.engine.state import load_optimizer_state, on_cpu, optimizer_state

from .workbench import BOOK, data, difference, experiment, numbers, replicas, same, take_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

# A quasi-Newton method on batches that change must go gently, or it magnifies rounding without bound.
LBFGS = "lbfgs:lr=0.1,max_iter=5"
OPTIMIZERS = (*BOOK, LBFGS, "adamax")
BACKENDS = ("single:devices=cpu", "manual:devices=1", "manual:devices=2", "manual:devices=3,reduce=ring")


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in a nest of dicts and lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


@functools.cache
def halfway(backend: str, optimizer: str, model: str = "linear", dtype: str = "float64") -> dict[str, Any]:
    """The state after eight steps."""
    with assembled(experiment(backend=backend, optimizer=optimizer, model=model, dtype=dtype)) as parts:
        take_steps(parts, 8)
        return parts.backend.state_dict()


@functools.cache
def uninterrupted(backend: str, optimizer: str, model: str = "linear", dtype: str = "float64") -> dict[str, Tensor]:
    """The model after sixteen steps."""
    with assembled(experiment(backend=backend, optimizer=optimizer, model=model, dtype=dtype)) as parts:
        take_steps(parts, 16)
        state: dict[str, Tensor] = parts.backend.state_dict()["model"]
        return state


def resumed(
    state: dict[str, Any], backend: str, optimizer: str, model: str = "linear", dtype: str = "float64"
) -> dict[str, Tensor]:
    """The model after sixteen steps, the second eight of them from a state."""
    with assembled(experiment(backend=backend, optimizer=optimizer, model=model, dtype=dtype)) as parts:
        parts.backend.load_state_dict(state)
        take_steps(parts, 8, start=8)
        found: dict[str, Tensor] = parts.backend.state_dict()["model"]
        return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_going_on_from_a_state_equals_never_having_stopped_bit_for_bit(backend: str, optimizer: str) -> None:
    found = resumed(halfway(backend, optimizer), backend, optimizer)
    assert same(found, uninterrupted(backend, optimizer))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(BACKENDS, 2)))
def test_any_backend_goes_on_from_the_state_of_any_other(before: str, after: str, optimizer: str) -> None:
    found = resumed(halfway(before, optimizer), after, optimizer)
    # A quasi-Newton step divides by small differences of gradients, which magnifies their rounding.
    tolerance = 1e-10 if optimizer == LBFGS else 1e-12
    assert difference(found, uninterrupted("single:devices=cpu", optimizer)) <= tolerance


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("optimizer", "dtype"), [("adagrad", "float64"), ("adam", "float32")])
def test_dropout_and_batch_norm_go_on_from_a_state_bit_for_bit(backend: str, optimizer: str, dtype: str) -> None:
    model = "mlp:hidden=[8],dropout=0.5,batch_norm=true"
    found = resumed(halfway(backend, optimizer, model, dtype), backend, optimizer, model, dtype)
    assert same(found, uninterrupted(backend, optimizer, model, dtype))


@pytest.mark.parametrize("backend", [*BACKENDS, "manual:devices=2,concurrency=threads"])
@pytest.mark.parametrize("model", ["linear", "mlp:hidden=[8],dropout=0.5,batch_norm=true"])
def test_a_backend_that_is_put_back_takes_the_same_steps_again(model: str, backend: str) -> None:
    with assembled(experiment(backend=backend, optimizer="adam", model=model)) as parts:
        take_steps(parts, 5)
        state = parts.backend.state_dict()
        take_steps(parts, 5, start=5)
        expected = parts.backend.state_dict()
        parts.backend.load_state_dict(state)
        take_steps(parts, 5, start=5)
        found = parts.backend.state_dict()
    assert same(found["model"], expected["model"])
    assert all(torch.equal(*pair) for pair in zip(tensors(found), tensors(expected), strict=True))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_state_survives_a_file_that_is_read_without_unpickling(optimizer: str) -> None:
    file = io.BytesIO()
    torch.save(halfway("manual:devices=2", optimizer), file)
    file.seek(0)
    found = resumed(torch.load(file, weights_only=True), "manual:devices=2", optimizer)
    assert same(found, uninterrupted("manual:devices=2", optimizer))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_has_the_plain_names_of_the_model_and_lies_on_the_cpu(backend: str, optimizer: str) -> None:
    state = halfway(backend, optimizer)
    assert state.keys() == {"model", "optimizer", "streams"}
    assert list(state["model"]) == ["weight", "bias"]
    assert state["optimizer"]["param_groups"][0]["params"] == ["weight", "bias"]
    assert set(state["optimizer"]["state"]) <= {"weight", "bias"}
    assert len(state["streams"]["dropout"]) == (1 if "single" in backend else int(backend.partition("=")[2][0]))
    assert all(one.device.type == "cpu" and not one.requires_grad for one in tensors(state))


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_and_buffers_of_layers_within_layers_are_plain_too(backend: str) -> None:
    model = "mlp:hidden=[4],batch_norm=true"
    state = halfway(backend, "adam", model)
    norm = [f"norm1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
    linear = ["linear1.weight", "linear1.bias"]
    assert list(state["model"]) == [*linear, *norm, "output.weight", "output.bias"]
    assert set(state["optimizer"]["state"]) == {*linear, *norm[:2], "output.weight", "output.bias"}


@pytest.mark.parametrize("optimizer", ["momentum", "adam", LBFGS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_was_taken_does_not_change_any_more(backend: str, optimizer: str) -> None:
    with assembled(experiment(backend=backend, optimizer=optimizer, model="mlp:hidden=[4],dropout=0.5")) as parts:
        take_steps(parts, 4)
        state = parts.backend.state_dict()
        kept = copy.deepcopy(state)
        take_steps(parts, 4, start=4)
    assert all(torch.equal(*pair) for pair in zip(tensors(state), tensors(kept), strict=True))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_replicas_share_no_tensor_of_a_state_that_they_loaded(optimizer: str) -> None:
    state = halfway("single:devices=cpu", optimizer)
    with assembled(experiment(backend="manual:devices=3", optimizer=optimizer, dtype="float64")) as parts:
        parts.backend.load_state_dict(state)
        owned = [
            [*replica.model.state_dict().values(), *tensors(dict(replica.optimizer.state))]
            for replica in replicas(parts)
        ]
        owned.append(list(tensors(state)))
        places = [{one.untyped_storage().data_ptr() for one in mine if one.numel()} for mine in owned]
    assert len(set.union(*places)) == sum(map(len, places))


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2"])
def test_loading_a_state_leaves_it_as_it_was(backend: str) -> None:
    state = copy.deepcopy(halfway("manual:devices=2", "adam"))
    resumed(state, backend, "adam")
    expected = tensors(halfway("manual:devices=2", "adam"))
    assert all(torch.equal(*pair) for pair in zip(tensors(state), expected, strict=True))


def without(state: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    return {**state, part: {key: value for key, value in state[part].items() if key != name}}


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2"])
def test_a_state_of_another_model_is_refused(backend: str) -> None:
    state = halfway("single:devices=cpu", "adam")
    wrong = {
        "another model": halfway("single:devices=cpu", "adam", "mlp"),
        "a name too few": without(state, "model", "bias"),
        "a name too many": {**state, "model": {**state["model"], "module.bias": torch.zeros(1)}},
        "another shape": {**state, "model": {**state["model"], "weight": torch.zeros(1, 6)}},
    }
    for one in wrong.values():
        with (
            assembled(experiment(backend=backend, optimizer="adam", dtype="float64")) as parts,
            pytest.raises((ValueError, RuntimeError)),
        ):
            parts.backend.load_state_dict(one)


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2"])
def test_an_optimizer_state_of_other_parameters_is_refused_with_their_names(backend: str) -> None:
    state = copy.deepcopy(halfway("single:devices=cpu", "adam"))
    state["optimizer"]["param_groups"][0]["params"] = ["weight", "other"]
    with (
        assembled(experiment(backend=backend, optimizer="adam", dtype="float64")) as parts,
        pytest.raises(ValueError, match="other"),
    ):
        parts.backend.load_state_dict(state)


@pytest.mark.parametrize(("saved", "loading"), [("adagrad", "adam"), ("adam", "adagrad"), (LBFGS, "sgd")])
def test_a_state_of_another_optimizer_is_refused(saved: str, loading: str) -> None:
    with (
        assembled(experiment(backend="manual:devices=2", optimizer=loading, dtype="float64")) as parts,
        pytest.raises((ValueError, RuntimeError)),
    ):
        parts.backend.load_state_dict(halfway("single:devices=cpu", saved))


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=3"])
def test_the_learning_rate_is_read_and_set_on_every_replica_and_kept_in_the_state(backend: str) -> None:
    with assembled(experiment(backend=backend, optimizer="adam:lr=0.25")) as parts:
        assert parts.backend.lr == 0.25
        parts.backend.scale_lr(0.5)
        assert [one.optimizer.param_groups[0]["lr"] for one in replicas(parts)] == [0.125] * len(replicas(parts))
        state = parts.backend.state_dict()
    with assembled(experiment(backend=backend, optimizer="adam")) as parts:
        parts.backend.load_state_dict(state)
        assert parts.backend.lr == 0.125


class Idle(nn.Module):
    """A linear model with a parameter that is never used, one that is frozen, and one under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.ones(3))
        self.linear = nn.Linear(2, 1)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.again = self.linear

    def forward(self, inputs: Tensor) -> Tensor:
        return self.again(self.linear(inputs) * self.frozen)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_without_a_state_of_their_own_do_not_confuse_it(backend: str, optimizer: str) -> None:
    words = {
        "model": Model("idle", lambda inputs, outputs: Idle()),
        "data": data(numbers(40)),
        "optimizer": optimizer,
        "dtype": "float64",
        "batch_size": 7,
    }
    with assembled(experiment(backend="single:devices=cpu", **words)) as parts:
        take_steps(parts, 4)
        state = parts.backend.state_dict()
        take_steps(parts, 4, start=4)
        expected = parts.backend.state_dict()["model"]
    assert set(state["optimizer"]["state"]) == {"linear.weight", "linear.bias"}
    assert torch.equal(expected["unused"], torch.ones(3, dtype=torch.float64))
    with assembled(experiment(backend=backend, **words)) as parts:
        parts.backend.load_state_dict(state)
        take_steps(parts, 4, start=4)
        assert difference(parts.backend.state_dict()["model"], expected) <= 1e-12


def test_a_state_is_kept_by_name_whatever_the_order_and_groups_of_the_parameters() -> None:
    model = nn.Linear(2, 1)
    forwards = torch.optim.Adam([{"params": [model.weight], "lr": 0.5}, {"params": [model.bias]}])
    model(torch.ones(4, 2)).sum().backward()
    forwards.step()
    state = optimizer_state(forwards, model)
    assert [group["params"] for group in state["param_groups"]] == [["weight"], ["bias"]]
    twin = copy.deepcopy(model)
    mine = torch.optim.Adam([{"params": [twin.weight], "lr": 0.5}, {"params": [twin.bias]}])
    load_optimizer_state(mine, twin, copy.deepcopy(state))
    assert mine.state[twin.weight]["exp_avg"].shape == (1, 2)
    assert mine.state[twin.bias]["exp_avg"].shape == (1,)
    assert [group["lr"] for group in mine.param_groups] == [0.5, 0.001]


def test_a_copy_on_the_cpu_shares_nothing_and_keeps_the_form() -> None:
    value = {"a": [torch.ones(2), None, "word"], "b": (torch.zeros(1, requires_grad=True), 3)}
    copied = on_cpu(value)
    assert type(copied["a"]) is list
    assert type(copied["b"]) is tuple
    assert copied["a"][1:] == [None, "word"]
    assert not copied["b"][0].requires_grad
    value["a"][0].add_(1)
    assert copied["a"][0].tolist() == [1, 1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_replicas_have_one_fingerprint_until_one_is_nudged(backend: str, optimizer: str) -> None:
    with assembled(experiment(backend=backend, optimizer=optimizer, batch_size=7)) as parts:
        before = parts.backend.fingerprint()
        take_steps(parts, 8)
        after = parts.backend.fingerprint()
        assert len(after) == len(replicas(parts))
        assert len(set(before)) == len(set(after)) == 1
        assert before != after
        with torch.no_grad():
            last = replicas(parts)[-1].model.weight.view(-1)[-1:]
            # The smallest change that float32 knows.
            last.copy_(torch.nextafter(last, last + 1))
        nudged = parts.backend.fingerprint()
        assert nudged[:-1] == after[:-1]
        assert nudged[-1] != after[-1]


def test_equal_models_have_equal_fingerprints_on_every_backend() -> None:
    prints = set()
    for backend in BACKENDS:
        with assembled(experiment(backend=backend, model="mlp")) as parts:
            prints |= set(parts.backend.fingerprint())
    assert len(prints) == 1
