"""The same work for every replica: in turn or in threads, with the same results; and optimizers that step at once."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from playground import Model, ShardError
from playground.components import Optimizer as OptimizerComponent
from playground.engine import randomness
from playground.engine.assembly import assembled
from playground.engine.relay import Relay
from playground.engine.team import TRIALS, Concurrency, Team

from .workbench import data, experiment, numbers, run, same, take_steps, trained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CPU = torch.device("cpu")


def step_together(optimizers: list[Optimizer], evaluate: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(len(optimizers)) as pool:
        Relay(optimizers, evaluate).run(pool)


def crew() -> list[threading.Thread]:
    """The threads that work for replicas."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("replica")]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    threads, state = set(threading.enumerate()), torch.get_rng_state()
    yield
    assert set(threading.enumerate()) == threads
    torch.set_rng_state(state)


@pytest.fixture
def team() -> Iterator[Callable[..., Team]]:
    """Make a team on the CPU that has had its trials, so that threads run where they are asked for."""
    made: list[Team] = []

    def make(replicas: int, concurrency: Concurrency = "threads", seed: int = 0) -> Team:
        made.append(Team((CPU,) * replicas, seed, concurrency))
        for _ in range(TRIALS):
            made[-1].differentiate(lambda replica: replica)
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("concurrency", ["threads", "turns", "auto"])
@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_results_come_in_the_order_of_the_replicas(
    replicas: int, concurrency: Concurrency, team: Callable[..., Team]
) -> None:
    one = team(replicas, concurrency)
    assert one.each(lambda replica: replica * 10) == [replica * 10 for replica in range(replicas)]
    assert one.differentiate(lambda replica: replica * 10) == [replica * 10 for replica in range(replicas)]


def test_threads_are_used_where_they_are_asked_for(team: Callable[..., Team]) -> None:
    names = team(3).each(lambda replica: threading.current_thread().name)
    # A thread may be quick enough to do the work of two.
    assert all(name.startswith("replica") for name in names)


def test_threads_work_at_the_same_time(team: Callable[..., Team]) -> None:
    meeting = threading.Barrier(3, timeout=60)
    # Nobody passes unless all three are there.
    assert sorted(team(3).differentiate(lambda replica: meeting.wait())) == [0, 1, 2]


def test_taking_turns_is_done_in_the_callers_thread(team: Callable[..., Team]) -> None:
    assert (
        team(3, "turns").differentiate(lambda replica: threading.current_thread()) == [threading.current_thread()] * 3
    )


def test_a_single_replica_needs_no_thread(team: Callable[..., Team]) -> None:
    assert team(1).differentiate(lambda replica: threading.current_thread()) == [threading.current_thread()]


def test_gradients_are_on_in_every_thread(team: Callable[..., Team]) -> None:
    assert team(2).differentiate(lambda replica: torch.is_grad_enabled()) == [True, True]


@pytest.mark.parametrize("concurrency", ["threads", "turns"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_a_replica_raises_surfaces_as_itself(
    failing: int, concurrency: Concurrency, team: Callable[..., Team]
) -> None:
    def work(replica: int) -> None:
        if replica == failing:
            raise LookupError(f"replica {replica}")

    for method in (team(3, concurrency).each, team(3, concurrency).differentiate):
        with pytest.raises(LookupError, match=f"replica {failing}"):
            method(work)


def test_a_failure_is_reported_when_no_replica_is_at_work_any_more(team: Callable[..., Team]) -> None:
    finished = []

    def work(replica: int) -> None:
        if replica == 0:
            raise LookupError
        # Long enough for the failure to get away first, were it not held back.
        threading.Event().wait(0.2)
        finished.append(replica)

    with pytest.raises(LookupError):
        team(3).each(work)
    assert sorted(finished) == [1, 2]


def test_closing_ends_the_threads_and_may_be_done_twice(team: Callable[..., Team]) -> None:
    one = team(2)
    one.each(lambda replica: replica)
    assert crew()
    one.close()
    assert not crew()
    one.close()


@pytest.mark.parametrize("concurrency", ["threads", "turns", "auto"])
def test_each_replica_draws_from_a_stream_of_its_own(concurrency: Concurrency) -> None:
    one = Team((CPU,) * 3, 7, concurrency)
    drawn = [one.differentiate(lambda replica: torch.rand(2)) for _ in range(TRIALS + 3)]
    assert not crew()
    for replica in range(3):
        expected = torch.rand(2 * len(drawn), generator=randomness.generator(7, "dropout", replica))
        assert torch.equal(torch.cat([step[replica] for step in drawn]), expected)


def test_a_replica_alone_on_its_device_draws_from_its_stream_too() -> None:
    one = Team((CPU,), 7)
    drawn = torch.cat([one.differentiate(lambda replica: torch.rand(2))[0] for _ in range(5)])
    assert torch.equal(drawn, torch.rand(10, generator=randomness.generator(7, "dropout", 0)))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_team_goes_on_from_the_streams_of_another(replicas: int) -> None:
    def draw(one: Team, times: int) -> list[Tensor]:
        return [value for _ in range(times) for value in one.differentiate(lambda replica: torch.rand(3))]

    first = Team((CPU,) * replicas, 0)
    draw(first, 5)
    streams = copy.deepcopy(first.streams())
    expected = draw(first, 5)
    second = Team((CPU,) * replicas, 1)
    second.restore(streams)
    assert all(torch.equal(*pair) for pair in zip(draw(second, 5), expected, strict=True))


def test_streams_that_were_given_out_do_not_move_any_more() -> None:
    one = Team((CPU,) * 2, 0)
    given = one.streams()
    before = copy.deepcopy(given)
    one.differentiate(lambda replica: torch.rand(1))
    assert same(given, before)
    assert not torch.equal(one.streams()["dropout"][0], before["dropout"][0])


class Late(nn.Linear):
    """A linear layer with noise in its inputs, which begins after some steps: drop-path that is warmed up, say."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
            if self.steps > 5:
                input = input + 0.1 * torch.randn_like(input)
        return super().forward(input)


LATE = Model("late", lambda inputs, outputs: Late())


def test_a_model_that_begins_to_draw_later_gets_the_same_numbers_in_threads_and_in_turns() -> None:
    words = {"model": LATE, "data": data(numbers(30)), "batch_size": 5}
    in_turns, in_threads = (
        trained(12, backend=f"manual:devices=2,concurrency={concurrency}", **words)
        for concurrency in ("turns", "threads")
    )
    # Its own count of steps is a buffer, which the step that is taken again counts twice.
    assert same(*({name: value for name, value in one.items() if name != "steps"} for one in (in_turns, in_threads)))


class Noisy(torch.optim.SGD):
    """Langevin dynamics: a step against the gradient, and noise."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(torch.randn_like(parameter), alpha=0.01)


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("concurrency", ["turns", "threads"])
def test_optimizers_that_draw_random_numbers_draw_the_same_ones_on_every_replica(
    concurrency: str, closure: bool
) -> None:
    words = {
        "optimizer": OptimizerComponent("noisy", Noisy, closure=closure),
        "model": "mlp:hidden=[4],dropout=0.0",
        "data": data(numbers(30)),
        "batch_size": 7,
        "dtype": "float64",
    }
    single = trained(12, backend="single:devices=cpu", **words)
    many = trained(12, backend=f"manual:devices=3,concurrency={concurrency}", **words)
    # The noise is the same number by number; sums of gradients are rounded in another order.
    assert max((single[name] - many[name]).abs().max().item() for name in single) < 1e-12


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=2,concurrency=turns"])
def test_in_turns_a_model_that_begins_to_draw_later_goes_on_from_a_state_as_if_nothing_had_happened(
    backend: str,
) -> None:
    words = {"model": LATE, "data": data(numbers(30)), "batch_size": 5, "backend": backend}
    expected = trained(12, **words)
    with assembled(experiment(**words)) as parts:
        take_steps(parts, 8)
        state = parts.backend.state_dict()
    with assembled(experiment(**words)) as parts:
        parts.backend.load_state_dict(state)
        take_steps(parts, 4, start=8)
        assert same(parts.backend.state_dict()["model"], expected)


def test_in_turns_a_model_that_begins_to_draw_later_still_draws_from_each_replicas_own_stream() -> None:
    one = Team((CPU,) * 2, 7, "turns")
    for _ in range(TRIALS + 1):
        one.differentiate(lambda replica: None)
    drawn = one.differentiate(lambda replica: torch.rand(2))
    expected = [torch.rand(2, generator=randomness.generator(7, "dropout", replica)) for replica in range(2)]
    assert all(torch.equal(*pair) for pair in zip(drawn, expected, strict=True))


class Asking(Optimizer):
    """An optimizer that asks for an evaluation so many times in a step, and keeps the answers."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        super().__init__([nn.Parameter(torch.zeros(1))], {})
        self.times, self.error = times, error
        self.answers: list[Any] = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for _ in range(self.times):
            self.answers.append(closure())
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("times", [0, 1, 5])
def test_one_evaluation_answers_all_optimizers(replicas: int, times: int) -> None:
    optimizers = [Asking(times) for _ in range(replicas)]
    evaluations: list[int] = []

    def evaluate() -> int:
        evaluations.append(len(evaluations))
        return evaluations[-1]

    step_together(list(optimizers), evaluate)
    assert evaluations == list(range(times))
    assert all(one.answers == evaluations for one in optimizers)


@pytest.mark.parametrize("replicas", [1, 3])
def test_gradients_are_on_in_an_evaluation_whatever_the_caller_has(replicas: int) -> None:
    optimizers = [Asking(1) for _ in range(replicas)]
    with torch.no_grad():
        step_together(list(optimizers), torch.is_grad_enabled)
        assert not torch.is_grad_enabled()
    assert all(one.answers == [True] for one in optimizers)


@pytest.mark.parametrize("times", [(1, 2), (2, 1), (0, 1), (3, 3, 2), (1, 0, 0)])
def test_optimizers_that_get_out_of_step_are_an_error(times: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="out of step"):
        step_together([Asking(one) for one in times], lambda: 0.0)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("error", [ValueError("no such shape"), KeyboardInterrupt(), SystemExit(3)])
def test_what_an_evaluation_raises_surfaces_as_itself(replicas: int, error: BaseException) -> None:
    def evaluate() -> float:
        raise error

    with pytest.raises(type(error)) as caught:
        step_together([Asking(2) for _ in range(replicas)], evaluate)
    assert caught.value is error


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_an_optimizer_raises_surfaces_as_itself(failing: int) -> None:
    error = ArithmeticError("no descent")
    optimizers: list[Optimizer] = [Asking(1, error if replica == failing else None) for replica in range(3)]
    with pytest.raises(ArithmeticError) as caught:
        step_together(optimizers, lambda: 0.0)
    assert caught.value is error


def test_a_failing_evaluation_of_a_run_is_the_error_of_the_run() -> None:
    class Failing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if self.training:
                raise ArithmeticError("in the forward pass")
            return super().forward(input)

    words = {"model": Model("failing", lambda inputs, outputs: Failing(2, 1)), "data": data(numbers(30))}
    for optimizer in ("sgd", "lbfgs"):
        ended = run(optimizer=optimizer, backend="manual:devices=3", **words)
        assert ended.status == "failed"
        assert isinstance(ended.error, ShardError)
        assert isinstance(ended.error.__cause__, ArithmeticError)
        assert len(ended.history) == 1
