"""Full copies of a model in one process: how a batch is cut, whose gradient it is, and what an evaluation leaves."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from playground import Model, Objective, Place, PlaygroundError, Recipe, ReplicaBackend, Request, ShardError
from playground.engine.assembly import assembled

from .workbench import data, difference, evaluate, experiment, numbers, replicas, run, same, take_steps, train, trained

if TYPE_CHECKING:
    from collections.abc import Iterator

SINGLE = "single:devices=cpu"


class Summing(ReplicaBackend):
    """The plainest exact reduction."""

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        for parts in zip(*gradients, strict=True):
            total = torch.stack(list(parts)).sum(dim=0)
            for part in parts:
                part.copy_(total)
        return 0


@pytest.fixture(autouse=True)
def _threads_are_left_as_they_were() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == before


@functools.cache
def cutter(count: int) -> Summing:
    """A backend with so many replicas of next to nothing."""
    backend = Summing(devices=count)
    backend.setup(backend.plan(Request(1, 1)), Place((torch.device("cpu"),) * count))
    backend.prepare(Recipe(lambda: nn.Linear(1, 1), lambda ps: torch.optim.SGD(ps, lr=0.1), closure=False, seed=0))
    return backend


@given(st.integers(0, 60), st.integers(1, 12))
@settings(deadline=None, database=None)
def test_every_row_of_a_global_batch_goes_to_exactly_one_replica_in_order(rows: int, count: int) -> None:
    numbers_of_rows = torch.arange(rows) * 3 + 1
    parts = cutter(count).shard(numbers_of_rows)
    assert len(parts) == count
    assert torch.cat(parts).tolist() == numbers_of_rows.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("rows", "count", "sizes"),
    [(10, 3, [4, 3, 3]), (9, 4, [3, 2, 2, 2]), (5, 4, [2, 1, 1, 1]), (3, 4, [1, 1, 1, 0]), (1, 4, [1, 0, 0, 0])],
)
def test_shards_may_be_uneven_or_empty(rows: int, count: int, sizes: list[int]) -> None:
    assert [len(part) for part in cutter(count).shard(torch.arange(rows))] == sizes


@pytest.mark.parametrize("reduce", ["star", "ring"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("rows", [9, 5, 3, 1])
def test_few_rows_on_four_replicas_give_the_update_of_one_device(rows: int, optimizer: str, reduce: str) -> None:
    words = {"data": data(numbers(rows)), "optimizer": optimizer, "batch_size": rows, "dtype": "float64"}
    expected = trained(10, backend=SINGLE, **words)
    found = trained(10, backend=f"manual:devices=4,reduce={reduce}", **words)
    assert all(value.isfinite().all() for value in found.values())
    assert difference(found, expected) <= 1e-12


@pytest.mark.parametrize("optimizer", ["sgd", "lbfgs"])
@pytest.mark.parametrize("rows", [9, 5, 3])
def test_the_loss_of_a_step_is_the_sum_over_the_global_batch_before_the_update(rows: int, optimizer: str) -> None:
    inputs, targets = numbers(rows)
    words = {"data": data((inputs, targets)), "batch_size": rows, "dtype": "float64", "optimizer": optimizer}
    for backend in (SINGLE, "manual:devices=4"):
        with assembled(experiment(backend=backend, **words)) as parts:
            weight, bias = parts.backend.state_dict()["model"].values()
            (result,) = take_steps(parts, 1)
        expected = (inputs @ weight.T + bias - targets).square().sum().item() / 2
        assert result.loss.shape == ()
        assert result.loss.item() == pytest.approx(expected, rel=1e-13)


def test_a_replica_with_an_empty_shard_adds_nothing_and_gets_the_sum() -> None:
    inputs, targets = numbers(3)
    words = {"data": data((inputs, targets)), "batch_size": 3, "dtype": "float64"}
    with assembled(experiment(backend="manual:devices=4", **words)) as parts:
        weight, bias = parts.backend.state_dict()["model"].values()
        take_steps(parts, 1)
        gradients = [[parameter.grad for parameter in one.parameters] for one in replicas(parts)]
    errors = inputs @ weight.T + bias - targets
    for own in gradients:
        torch.testing.assert_close(own[0], errors.T @ inputs / 3, rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(own[1], errors.sum(dim=0) / 3, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_shard_in_several_micro_batches_is_the_same_shard(count: int) -> None:
    inputs, targets = numbers(12)
    words = {"data": data((inputs, targets)), "batch_size": 12, "dtype": "float64", "lr": 0.1}
    results = []
    for pieces in (1, 2, 3):
        with assembled(experiment(backend={"name": "manual", "devices": count}, **words)) as parts:
            shards = [
                list(zip(inputs[rows].chunk(pieces), targets[rows].chunk(pieces), strict=True))
                for rows in parts.backend.shard(torch.arange(12))
            ]
            loss = parts.backend.step(shards, 12, parts.objective).loss
            assert parts.backend.evaluate(shards, parts.objective)["loss"] < loss
            results.append((parts.backend.state_dict()["model"], loss))
    for state, loss in results[1:]:
        assert difference(state, results[0][0]) <= 1e-13
        assert loss.item() == pytest.approx(results[0][1].item(), rel=1e-13)


@pytest.mark.parametrize("count", [2, 4])
def test_replicas_are_copies_that_share_no_storage(count: int) -> None:
    model = "mlp:hidden=[4],batch_norm=true"
    with assembled(experiment(model=model, backend={"name": "manual", "devices": count}, optimizer="adam")) as parts:
        take_steps(parts, 2)
        owned = [
            [
                *one.model.state_dict().values(),
                *(parameter.grad for parameter in one.parameters),
                *(value for entry in one.optimizer.state.values() for value in entry.values()),
            ]
            for one in replicas(parts)
        ]
        places = [{tensor.untyped_storage().data_ptr() for tensor in mine} for mine in owned]
        assert all(len(mine) == len(its) for mine, its in zip(places, owned, strict=True))
        assert len(set.union(*places)) == sum(map(len, places))
        assert len({id(module) for one in replicas(parts) for module in one.model.modules()}) == count * 5


def test_a_change_of_one_replica_does_not_reach_another() -> None:
    with assembled(experiment(backend="manual:devices=2")) as parts:
        first, second = (one.model for one in replicas(parts))
        before = second.weight.clone()
        with torch.no_grad():
            first.weight.add_(1)
        assert torch.equal(second.weight, before)


def test_tied_parameters_stay_tied_in_every_copy() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(2, 2), nn.Linear(2, 2)
            self.other.weight = self.one.weight

        def forward(self, inputs: Tensor) -> Tensor:
            return self.other(torch.tanh(self.one(inputs))).sum(dim=1, keepdim=True)

    words = {"model": Model("tied", lambda inputs, outputs: Tied()), "data": data(numbers(30)), "dtype": "float64"}
    with assembled(experiment(backend="manual:devices=3", **words)) as parts:
        take_steps(parts, 20)
        assert all(one.model.one.weight is one.model.other.weight for one in replicas(parts))
        assert difference(parts.backend.state_dict()["model"], trained(20, backend=SINGLE, **words)) <= 1e-12


class Gated(nn.Module):
    """A linear model with one layer that is frozen, one that is never used, and one for rows that are positive.

    The last one is not touched at all where there is no such row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.frozen, self.unused, self.positive = (nn.Linear(2, 1) for _ in range(4))
        self.frozen.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.linear(inputs) + self.frozen(inputs)
        positive = inputs[:, :1] > 1
        return outputs + positive * self.positive(inputs) if positive.any() else outputs


GATED = {"model": Model("gated", lambda inputs, outputs: Gated()), "data": data(numbers(40)), "dtype": "float64"}
DECAYING = ("momentum:weight_decay=0.1", "adamw", "rmsprop")


@pytest.mark.parametrize("optimizer", DECAYING)
@pytest.mark.parametrize("backend", [SINGLE, "manual:devices=2", "manual:devices=3,reduce=ring"])
def test_parameters_that_are_frozen_or_not_used_are_left_alone(backend: str, optimizer: str) -> None:
    with assembled(experiment(backend=backend, optimizer=optimizer, batch_size=7, **GATED)) as parts:
        before = parts.backend.state_dict()["model"]
        take_steps(parts, 10)
        after = parts.backend.state_dict()["model"]
        for replica in replicas(parts):
            assert replica.model.frozen.weight.grad is None
            assert replica.model.unused.weight.grad is None
            assert not replica.model.frozen.weight.requires_grad
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert moved == {f"{layer}.{name}" for layer in ("linear", "positive") for name in ("weight", "bias")}


@pytest.mark.parametrize("optimizer", DECAYING)
@pytest.mark.parametrize("batch_size", [10, 3, 1])
@pytest.mark.parametrize("backend", ["manual:devices=2", "manual:devices=3,reduce=ring", "manual:devices=4"])
def test_a_parameter_that_only_some_shards_use_is_updated_as_on_one_device(
    backend: str, batch_size: int, optimizer: str
) -> None:
    words = {"optimizer": optimizer, "batch_size": batch_size, **GATED}
    assert difference(trained(backend=backend, **words), trained(backend=SINGLE, **words)) <= 1e-12


def test_a_parameter_that_no_row_of_a_batch_uses_has_no_gradient_on_any_replica() -> None:
    inputs, targets = numbers(6)
    words = {**GATED, "data": data((inputs.clamp(max=0.5), targets)), "batch_size": 6}
    with assembled(experiment(backend="manual:devices=2", optimizer="momentum:weight_decay=0.1", **words)) as parts:
        take_steps(parts, 3)
        assert all(one.model.positive.weight.grad is None for one in replicas(parts))
        assert all(one.model.linear.weight.grad is not None for one in replicas(parts))


NOISY = {"model": "mlp:hidden=[8],dropout=0.5,batch_norm=true", "optimizer": "adam", "dtype": "float64"}
BACKENDS = (SINGLE, "manual:devices=2", "manual:devices=3,reduce=ring", "manual:devices=2,concurrency=threads")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evaluation_leaves_no_trace(backend: str) -> None:
    with assembled(experiment(backend=backend, **NOISY)) as parts:
        take_steps(parts, 5)
        models = [one.model for one in replicas(parts)]
        # A part of the model that is kept in eval mode, as in fine-tuning, must stay so; the rest trains.
        models[-1].norm1.eval()
        modes = [[module.training for module in model.modules()] for model in models]
        states = [{name: value.clone() for name, value in model.state_dict().items()} for model in models]
        gradients = [[parameter.grad.clone() for parameter in model.parameters()] for model in models]
        random = torch.get_rng_state()
        streams = parts.backend.state_dict()["streams"]
        evaluate(parts)
        assert [[module.training for module in model.modules()] for model in models] == modes
        assert all(same(dict(model.state_dict()), state) for model, state in zip(models, states, strict=True))
        for model, kept in zip(models, gradients, strict=True):
            assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), kept, strict=True))
        assert torch.equal(torch.get_rng_state(), random)
        after = parts.backend.state_dict()["streams"]
        assert same(streams, after)


def test_the_buffers_of_replicas_do_differ_so_that_restoring_them_means_something() -> None:
    with assembled(experiment(backend="manual:devices=2", **NOISY)) as parts:
        take_steps(parts, 5)
        first, second = (one.model.norm1.running_mean for one in replicas(parts))
        assert not torch.equal(first, second)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evaluation_before_the_first_step_leaves_no_gradient(backend: str) -> None:
    with assembled(experiment(backend=backend, **NOISY)) as parts:
        evaluate(parts)
        assert all(parameter.grad is None for one in replicas(parts) for parameter in one.model.parameters())


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evaluation_is_that_of_the_first_replica_in_eval_mode(backend: str) -> None:
    with assembled(experiment(backend=backend, **NOISY)) as parts:
        take_steps(parts, 5)
        sums = evaluate(parts)
        state = parts.backend.state_dict()["model"]
        inputs, targets = (part.double() for part in parts.dataset.train)
    hidden = functional.linear(inputs, state["linear1.weight"], state["linear1.bias"])
    # Batch normalisation with running statistics, written out; dropout does nothing.
    hidden = (hidden - state["norm1.running_mean"]) / (state["norm1.running_var"] + 1e-5).sqrt()
    hidden = (hidden * state["norm1.weight"] + state["norm1.bias"]).relu()
    outputs = functional.linear(hidden, state["output.weight"], state["output.bias"])
    assert sums.keys() == {"loss"}
    assert sums["loss"] == pytest.approx((outputs - targets).square().sum().item() / 2, rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evaluation_that_fails_restores_modes_and_buffers_too(backend: str) -> None:
    class Failing(Objective):
        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            raise ArithmeticError("on purpose")

    with assembled(experiment(backend=backend, **NOISY)) as parts:
        take_steps(parts, 5)
        models = [one.model for one in replicas(parts)]
        states = [{name: value.clone() for name, value in model.state_dict().items()} for model in models]
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(10))])
        with pytest.raises(ArithmeticError):
            parts.backend.evaluate(shards, Failing())
        assert all(module.training for model in models for module in model.modules())
        assert all(same(dict(model.state_dict()), state) for model, state in zip(models, states, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_module_is_in_eval_mode_and_without_gradients_while_it_is_evaluated(backend: str) -> None:
    seen: list[tuple[bool, bool]] = []

    class Watched(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            seen.append((self.training, torch.is_grad_enabled()))
            return super().forward(input)

    model = Model("watched", lambda inputs, outputs: Watched(5, 1))
    with assembled(experiment(backend=backend, model=model)) as parts:
        take_steps(parts, 4)
        assert set(seen) == {(True, True)}
        seen.clear()
        evaluate(parts)
        assert set(seen) == {(False, False)}
        assert len(seen) == len(replicas(parts))
        seen.clear()
        take_steps(parts, 1, start=4)
        assert set(seen) == {(True, True)}


@pytest.mark.parametrize("backend", ["manual:devices=2", "manual:devices=3"])
def test_replicas_draw_masks_of_their_own(backend: str) -> None:
    with assembled(experiment(model="mlp:hidden=[64],dropout=0.5", backend=backend, batch_size=6)) as parts:
        drawn: list[Tensor] = []
        for one in replicas(parts):
            one.model.dropout1.register_forward_hook(lambda _, inputs, output: drawn.append((output == 0).detach()))
            # All hidden units alive, so that a zero is the mask's.
            one.model.activation1 = nn.Sigmoid()
        take_steps(parts, 5)
    masks = torch.stack([mask[: 6 // len(replicas(parts))] for mask in drawn])
    assert masks.float().mean() == pytest.approx(0.5, abs=0.05)
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == len(drawn) == 5 * len(replicas(parts))


@pytest.mark.parametrize("backend", [SINGLE, "manual:devices=2", "manual:devices=3,concurrency=threads"])
def test_dropout_is_the_same_in_every_run_of_an_experiment(backend: str) -> None:
    words = {"backend": backend, **NOISY}
    assert same(trained(10, **words), trained(10, **words))
    assert not same(trained(10, **words), trained(10, seed=1, **words))


def test_a_single_replica_of_manual_is_single_also_with_dropout() -> None:
    assert same(trained(10, backend="manual:devices=1", **NOISY), trained(10, backend=SINGLE, **NOISY))


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_replicas_on_the_cpu_share_its_threads(count: int) -> None:
    torch.set_num_threads(4)
    seen: set[int] = set()

    class Counting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            seen.add(torch.get_num_threads())
            return super().forward(input)

    model = Model("counting", lambda inputs, outputs: Counting(5, 1))
    for concurrency in ("threads", "turns"):
        backend = {"name": "manual", "devices": count, "concurrency": concurrency}
        with assembled(experiment(model=model, backend=backend)) as parts:
            take_steps(parts, 6)
        assert seen == {max(1, 4 // count)} == {parts.plan.threads}
        assert torch.get_num_threads() == 4
        seen.clear()
    torch.set_num_threads(1)


def test_a_plan_starts_and_changes_nothing() -> None:
    before, random = threading.active_count(), torch.get_rng_state()
    backend = Summing(devices=3)
    plan = backend.plan(Request(batch_size=10, threads=8))
    assert plan.devices == (torch.device("cpu"),) * 3
    assert (plan.threads, plan.processes) == (2, 1)
    assert backend.plan(Request(batch_size=10, threads=8)) == plan
    assert threading.active_count() == before
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("where", ["model", "optimizer", "body"])
def test_threads_and_settings_are_given_back_when_something_fails(where: str) -> None:
    def failing(*arguments: object) -> nn.Module:
        raise ArithmeticError("on purpose")

    torch.set_num_threads(4)
    model = Model("failing", failing) if where == "model" else "linear"
    optimizer = "muon" if where == "optimizer" else "sgd"
    before = torch.get_rng_state()

    def use() -> None:
        with assembled(experiment(model=model, optimizer=optimizer, backend="manual:concurrency=threads")) as parts:
            take_steps(parts, 6)
            raise ArithmeticError("on purpose")

    with pytest.raises(Exception, match="on purpose" if where != "optimizer" else "Muon"):
        use()
    assert torch.get_num_threads() == 4
    assert torch.equal(torch.get_rng_state(), before)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("replica")]
    torch.set_num_threads(1)


def test_a_backend_may_be_closed_before_it_is_prepared() -> None:
    Summing(devices=2).close()


def test_work_before_preparation_is_an_error_that_says_so() -> None:
    with pytest.raises(RuntimeError, match="prepared"):
        Summing(devices=2).team  # noqa: B018


@pytest.mark.parametrize(("rows", "count"), [(22, 3), (1, 4), (3, 4), (50, 4)])
def test_an_evaluation_counts_each_row_once(rows: int, count: int) -> None:
    class Counting(Objective):
        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return (outputs - targets).square().sum()

        def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
            return {"rows": torch.tensor(len(outputs)), "targets": targets.sum()}

    inputs, _ = numbers(rows)
    targets = 2.0 ** torch.arange(rows, dtype=torch.float64)[:, None]
    asked = experiment(data=data((inputs, targets)), backend={"name": "manual", "devices": count}, dtype="float64")
    with assembled(asked) as parts:
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(rows))])
        sums = parts.backend.evaluate(shards, Counting())
    assert sums["rows"] == rows
    # Each row has a binary digit of its own.
    assert sums["targets"] == 2**rows - 1


def test_evaluations_of_replicas_add_up_to_that_of_one_device() -> None:
    words = {"data": data(numbers(22), numbers(7)), "dtype": "float64", "batch_size": 5, "epochs": 1}
    single = train(backend=SINGLE, **words)
    for count in (2, 3, 4):
        found = train(backend={"name": "manual", "devices": count}, **words)
        for mine, its in zip(found.records, single.records, strict=True):
            assert mine["train_loss"] == pytest.approx(its["train_loss"], rel=1e-12)
            assert mine["test_loss"] == pytest.approx(its["test_loss"], rel=1e-12)


# A replica that fails on its shard


class FailingAt(nn.Linear):
    """A linear model that fails where it is to train on so many rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(2, 1)
        self.rows = rows

    def forward(self, input: Tensor) -> Tensor:
        if self.training and len(input) == self.rows:
            raise ArithmeticError(f"not {self.rows} rows")
        return super().forward(input)


ON_TWO = ("manual:devices=2", "manual:devices=2,concurrency=threads", "data-parallel:devices=2")


@pytest.mark.parametrize("optimizer", ["sgd", "lbfgs:lr=0.1,max_iter=2"])
@pytest.mark.parametrize(
    ("backend", "fails_at", "said"),
    [
        # The last batch has five rows: three for one replica and two for the other.
        *((backend, 3, "replica 0 on cpu failed on its shard of 3 rows") for backend in ON_TWO),
        *((backend, 2, "replica 1 on cpu failed on its shard of 2 rows") for backend in ON_TWO),
        (SINGLE, 5, "replica 0 on cpu failed on its shard of 5 rows"),
        ("data-parallel:devices=1", 5, "replica 0 on cpu failed on its shard of 5 rows"),
    ],
)
def test_a_model_that_fails_is_said_to_on_which_replica_and_with_how_many_rows(
    backend: str, fails_at: int, said: str, optimizer: str
) -> None:
    model = Model("failing", lambda inputs, outputs: FailingAt(fails_at))
    # Five batches of ten, so that threads are at work where they may be.
    ended = run(data=data(numbers(55)), model=model, backend=backend, optimizer=optimizer, batch_size=10)
    assert (ended.status, ended.steps) == ("failed", 5)
    assert isinstance(ended.error, ShardError)
    assert str(ended.error) == f"{said}: ArithmeticError: not {fails_at} rows"
    assert ended.summary()["error"] == str(ended.error)
    assert isinstance(ended.error.__cause__, ArithmeticError)


@pytest.mark.parametrize("backend", [SINGLE, *ON_TWO])
def test_a_backward_pass_that_fails_is_said_to_likewise(backend: str) -> None:
    class Irreversible(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, inputs: Tensor) -> Tensor:
            return inputs.clone()

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            raise ArithmeticError("no way back")

    class OneWay(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return Irreversible.apply(super().forward(input))

    model = Model("one-way", lambda inputs, outputs: OneWay(inputs[0], outputs))
    ended = run(data=data(numbers(10)), model=model, backend=backend, batch_size=10)
    rows = 10 if backend == SINGLE else 5
    assert str(ended.error) == f"replica 0 on cpu failed on its shard of {rows} rows: ArithmeticError: no way back"


@pytest.mark.parametrize("backend", [SINGLE, *ON_TWO])
def test_an_objective_that_fails_is_said_to_likewise(backend: str) -> None:
    class Failing(Objective):
        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            raise ArithmeticError("no loss")

    with assembled(experiment(data=data(numbers(9)), backend=backend)) as parts:
        (shards,) = parts.feeds["train"]([parts.backend.shard(torch.arange(9))])
        with pytest.raises(ShardError) as caught:
            parts.backend.step(shards, 9, Failing())
    # data-parallel gathers the outputs on the first device, and their loss is computed there.
    rows = 5 if "manual" in backend else 9
    assert str(caught.value) == f"replica 0 on cpu failed on its shard of {rows} rows: ArithmeticError: no loss"


def test_outputs_of_another_shape_than_the_targets_are_the_fault_of_a_shard() -> None:
    class Widening(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            outputs = super().forward(input)
            return outputs.expand(-1, 3) if self.training else outputs

    model = Model("widening", lambda inputs, outputs: Widening(inputs[0], outputs))
    ended = run(data=data(numbers(7)), model=model, backend="manual:devices=3", batch_size=7)
    assert isinstance(ended.error, ShardError)
    assert str(ended.error).startswith(
        "replica 0 on cpu failed on its shard of 3 rows: ValueError: the model gives outputs of shape (3, 3)"
    )


def test_an_error_of_the_project_s_own_is_not_put_into_another() -> None:
    class Refusing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if self.training:
                raise PlaygroundError("says it all")
            return super().forward(input)

    model = Model("refusing", lambda inputs, outputs: Refusing(inputs[0], outputs))
    for backend in (SINGLE, *ON_TWO):
        ended = run(data=data(numbers(10)), model=model, backend=backend)
        assert (ended.status, str(ended.error), type(ended.error)) == ("failed", "says it all", PlaygroundError)


WHAT_TO_DO = (
    "; batch normalisation has nothing to compare a single row with: choose --batch-size and --devices so that every "
    "shard, those of an epoch's last batch too, has two rows or more"
)


@pytest.mark.parametrize("backend", [SINGLE, *ON_TWO])
def test_a_single_row_under_batch_normalisation_is_told_what_to_do(backend: str) -> None:
    words = {"model": "mlp:hidden=[4],batch_norm=true", "batch_size": 10, "backend": backend}
    # One row is left for the last batch, and then three, of which the second of two replicas gets one.
    for rows, replica in [(41, 0), *([] if backend == SINGLE else [(43, 1)])]:
        ended = run(data=data(numbers(rows)), **words)
        assert (ended.status, ended.steps) == ("failed", 4)
        assert str(ended.error).startswith(
            f"replica {replica} on cpu failed on its shard of 1 row: ValueError: Expected more than 1 value per channel"
        )
        assert str(ended.error).endswith(WHAT_TO_DO)


def test_what_to_do_about_batch_normalisation_is_not_said_where_that_is_not_the_trouble() -> None:
    # One row, and no normalisation.
    model = Model("failing", lambda inputs, outputs: FailingAt(1))
    ended = run(data=data(numbers(1)), model=model, backend=SINGLE, batch_size=1)
    assert str(ended.error) == "replica 0 on cpu failed on its shard of 1 row: ArithmeticError: not 1 rows"
    # Normalisation, and more than one row.
    normalised = Model("failing", lambda inputs, outputs: nn.Sequential(nn.BatchNorm1d(2), FailingAt(2)))
    ended = run(data=data(numbers(2)), model=normalised, backend=SINGLE, batch_size=2)
    assert str(ended.error) == "replica 0 on cpu failed on its shard of 2 rows: ArithmeticError: not 2 rows"


def test_a_shard_without_rows_is_no_trouble_for_batch_normalisation() -> None:
    # Four rows for three replicas: manual cuts them into 2, 1 and 1, torch.chunk into 2, 2 and none.
    words = {"data": data(numbers(4)), "model": "mlp:hidden=[4],batch_norm=true", "batch_size": 4, "epochs": 2}
    assert run(backend="manual:devices=2", **words).status == "done"
    assert run(backend="manual:devices=3", **words).status == "failed"
    assert run(backend="data-parallel:devices=3", **words).status == "done"
