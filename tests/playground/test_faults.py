"""Faults of plugins and of the surroundings, of every kind: none hides its cause or costs the record."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch
from torch import nn

import playground
from playground import Backend, Data, Dataset, Model, ReplicaBackend, RequestError, hookimpl
from playground.discovery import Plugin
from playground.experiment import Experiment
from playground.registry import Registration, Registry
from playground.runs.execution import execute
from playground.runs.journal import Observer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from playground import Run
    from playground.components import Component


class OfNoKindError(BaseException):
    """Neither an Exception nor one of Python's own ends."""


class SilentError(Exception):
    """An exception whose message cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no message")


FAULTS = [RuntimeError("loud"), SystemExit(0), GeneratorExit(), OfNoKindError("odd"), SilentError()]


def registry_with(*components: Component) -> Registry:
    registry = Registry()
    plugin = Plugin("guest", "guest", "guest", "1")
    registry.components += [Registration(one, plugin, one.name) for one in components]
    return registry


def run(registry: Registry, out: Path | None = None, observer: Observer | None = None, **words: Any) -> Run:
    words = {"data": "linear-regression:rows=20", "epochs": 2, **words}
    return execute(Experiment.of(registry, words), registry, out, observer)


class Failing(nn.Linear):
    """A linear model that fails in its n-th training pass, or in its first evaluation."""

    def __init__(self, fault: BaseException, after: int) -> None:
        super().__init__(2, 1)
        self.fault, self.left = fault, after

    def forward(self, input: Tensor) -> Tensor:
        if self.training or self.left == 0:
            self.left -= 1
            if self.left < 0:
                raise self.fault
        return super().forward(input)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_a_model_raises_in_training_is_recorded_as_a_failure(fault: BaseException, tmp_path: Path) -> None:
    ended = run(registry_with(Model("failing", lambda *_: Failing(fault, 2))), tmp_path, model="failing")
    assert (ended.status, ended.steps) == ("failed", 2)
    # What is no Exception ends the process elsewhere, and nobody may put it into an error that does not.
    where = "replica 0 on cpu failed on its shard of 10 rows: " if isinstance(fault, Exception) else ""
    assert (ended.error.__cause__ if where else ended.error) is fault
    (directory,) = tmp_path.iterdir()
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["error"].startswith(f"{where}{type(fault).__name__}")
    assert type(fault).__name__ in (directory / "log.txt").read_text()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_a_model_raises_at_its_first_evaluation_is_a_refusal(fault: BaseException, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=type(fault).__name__):
        run(registry_with(Model("failing", lambda *_: Failing(fault, 0))), tmp_path, model="failing")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_a_factory_raises_is_a_refusal_that_names_it(fault: BaseException) -> None:
    def load() -> NoReturn:
        raise fault

    with pytest.raises(
        RequestError, match=rf"data 'bad' \(plugin guest/guest 1\) cannot be built: {type(fault).__name__}"
    ):
        run(registry_with(Data("bad", load)), data="bad")


class Closing(ReplicaBackend):
    """A backend that says what it was closed with, and fails to close."""

    heard: list[BaseException | None]

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return 0

    def close(self, error: BaseException | None = None) -> None:
        super().close(error)
        self.heard.append(error)
        raise OSError("jammed")


@pytest.mark.parametrize("fails", [False, True])
def test_a_backend_hears_what_ended_the_run_and_its_own_failure_to_close_hides_nothing(
    fails: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Closing, "heard", heard := [], raising=False)
    fault = RuntimeError("loud")
    registry = registry_with(
        Backend("closing", Closing), Model("failing", lambda *_: Failing(fault, 2 if fails else 99))
    )
    ended = run(registry, model="failing", backend="closing:devices=1")
    assert ended.status == ("failed" if fails else "done")
    assert heard == [ended.error]
    assert (ended.error.__cause__ if fails else ended.error) is (fault if fails else None)
    assert [record.levelno for record in caplog.records if "jammed" in record.message] == [logging.WARNING]


class Meddling:
    """Hooks that change everything that they are shown."""

    @hookimpl
    def playground_evaluation(self, run: Run, record: dict[str, float | None]) -> None:
        run.history.clear()
        run.status = "failed"
        run.notes.append("gossip")
        record.clear()
        torch.set_grad_enabled(False)

    @hookimpl
    def playground_run_end(self, run: Run) -> None:
        run.status = "running"


def test_hooks_that_change_what_they_are_shown_change_nothing(tmp_path: Path) -> None:
    alone = run(Registry())
    registry = Registry()
    loader = registry._loader
    loader._register(Meddling(), Plugin("meddling", "meddling", "guest", "1"))
    ended = run(registry, tmp_path)
    assert (ended.status, ended.notes) == ("done", alone.notes)
    assert [one["train_loss"] for one in ended.history] == [one["train_loss"] for one in alone.history]
    assert torch.is_grad_enabled()


def test_hooks_cannot_change_what_was_traced_and_timed(tmp_path: Path) -> None:
    class Clearing:
        """Forgets what it is shown, in whatever hook."""

        @hookimpl
        def playground_evaluation(self, run: Run, record: dict[str, float | None]) -> None:
            run.shapes.clear()
            run.timed.phases.clear()
            run.timed.steps = 0

        @hookimpl
        def playground_run_end(self, run: Run) -> None:
            self.playground_evaluation(run, {})

    registry = Registry()
    registry._loader._register(Clearing(), Plugin("clearing", "clearing", "guest", "1"))
    asked = Experiment.of(registry, {"data": "linear-regression:rows=20", "epochs": 2})
    ended = execute(asked, registry, tmp_path, trace_shapes=True)
    assert [batch.input for batch in ended.shapes] == [(10, 2)]
    assert (ended.timed.steps, len(ended.timed.ms_per_step)) == (4, 5)


def test_parameters_that_a_backend_cannot_give_do_not_cost_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Secretive(ReplicaBackend):
        def reduce(self, gradients: list[list[Tensor]]) -> int:
            return 0

        def state_dict(self) -> dict[str, Any]:
            raise NotImplementedError("not for you")

    registry = registry_with(Backend("secretive", Secretive))
    asked = Experiment.of(
        registry, {"data": "linear-regression:rows=20", "epochs": 2, "backend": "secretive:devices=1"}
    )
    ended = execute(asked, registry, tmp_path, keep_parameters=True)
    assert (ended.status, ended.parameters, ended.steps) == ("done", None, 4)
    (directory,) = tmp_path.iterdir()
    assert json.loads((directory / "summary.json").read_text())["status"] == "done"
    assert "could not be read: NotImplementedError: not for you" in caplog.text
    assert "not for you" in (directory / "log.txt").read_text()


class Gone(Observer):
    """An observer whose pipe has been closed."""

    def record(self, run: Run, record: Any) -> None:
        raise BrokenPipeError


def test_an_observer_that_fails_costs_nothing() -> None:
    assert run(Registry(), observer=Gone()).status == "done"


def test_ctrl_c_while_the_figure_is_drawn_costs_the_figure_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("playground.figures.curve", interrupted)
    ended = run(Registry(), tmp_path)
    assert ended.status == "done"
    assert {one.name for one in next(tmp_path.iterdir()).iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "summary.json",
        "log.txt",
    }


def test_a_model_that_changes_the_working_directory_does_not_lose_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    class Wandering(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if self.training:
                os.chdir("/")
            return super().forward(input)

    ended = run(registry_with(Model("wandering", lambda *_: Wandering(2, 1))), Path("runs"), model="wandering")
    assert ended.status == "done"
    assert (tmp_path / "runs" / ended.name / "summary.json").exists()


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full", "2>&1 | head -1"])
def test_closed_streams_do_not_fail_a_run(streams: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m playground run --data linear-regression:rows=20 --epochs 3 {streams}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=120, check=False)
    (directory,) = (tmp_path / "runs").iterdir()
    assert json.loads((directory / "summary.json").read_text())["status"] == "done"


@pytest.mark.parametrize(
    "fault", ["class E(BaseException): pass\nraise E()", "class E(Exception):\n    def __str__(self): 1/0\nraise E()"]
)
def test_a_plugin_that_fails_in_an_odd_way_is_listed(
    fault: str, cli: Callable[..., Any], install_plugin: Callable[..., dict[str, str]]
) -> None:
    done = cli("list", "--json", env=install_plugin("odd-plugin", fault))
    assert done.code == 0
    assert [row["status"] for row in done.json if row["plugin"] == "odd_plugin"] == ["broken"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"train": ([1.0], [2.0])}, "list, list"),
        ({"train": (torch.ones(2, 1),)}, "not of two tensors"),
        ({"train": 5}, "neither two tensors nor a data set"),
        ({"train": (torch.ones(2, 1), torch.tensor([0, -100])), "task": "classification", "classes": 2}, "from 0 to 1"),
        ({"train": (torch.ones(2, 1), torch.ones(2, 1)), "notes": "two words"}, "tuple of str"),
    ],
)
def test_a_data_set_says_what_is_wrong_with_its_parts(words: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Dataset(**words)


@pytest.mark.parametrize("plan", [None, playground.Plan((), 1), playground.Plan(("cpu",), 1)])  # type: ignore[arg-type]
def test_a_plan_that_is_none_is_refused_by_the_backends_name(plan: Any) -> None:
    class Planless(Closing):
        def plan(self, request: Any) -> Any:
            return plan

    with pytest.raises(RequestError, match=r"backend 'planless' \(plugin guest/guest 1\) failed to plan"):
        run(registry_with(Backend("planless", Planless)), backend="planless")


def test_lazy_modules_are_refused_with_what_to_do() -> None:
    with pytest.raises(RequestError, match="lazy modules"):
        run(registry_with(Model("lazy", lambda *_: nn.LazyLinear(1))), model="lazy", backend="manual:devices=2")


def test_parameters_that_are_not_contiguous_are_no_trouble() -> None:
    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3).t()[:1])

        def forward(self, input: Tensor) -> Tensor:
            return input @ self.weight.t()

    registry = registry_with(Model("transposed", lambda *_: Transposed()))
    assert run(registry, model="transposed", backend="manual:devices=2").status == "done"


def test_autocast_of_the_caller_changes_no_run() -> None:
    with contextlib.ExitStack() as stack:
        expected = run(Registry(), model="mlp").metrics
        stack.enter_context(torch.autocast("cpu", torch.bfloat16))
        assert run(Registry(), model="mlp").metrics == expected
