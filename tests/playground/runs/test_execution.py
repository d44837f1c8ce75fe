"""`playground.run`, the plugins that watch a run, and runs on a machine that has its troubles."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch
from matplotlib.figure import Figure
from playground_plugins.data.airfoil import load

import playground
from playground import ComponentError, Experiment, Optimizer, Registry, RequestError, Run, RunFailedError, hookimpl
from playground.runs.directory import RunDirectory
from playground.runs.execution import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SMALL = {"data": "linear-regression:rows=60", "epochs": 2}
DRAWS = {**SMALL, "model": "mlp:hidden=[8],dropout=0.5"}
"""A model that draws random numbers in training, so that any that others draw would be missed."""


@dataclass
class Entry:
    """An entry point that gives an object of this test."""

    implementation: object
    name: str
    value: str = "tests"

    def load(self) -> object:
        return self.implementation


def registry_with(*implementations: object, name: str = "spy") -> Registry:
    """The installed plugins, and these, named `spy0`, `spy1` … or likewise."""
    mine: list[Any] = [Entry(one, f"{name}{number}") for number, one in enumerate(implementations)]
    return Registry(entry_points=[*importlib.metadata.entry_points(group="playground"), *mine])


def losses(run: Run) -> list[float | None]:
    return [record["train_loss"] for record in run.history]


def lines_of(directory: Path) -> list[dict[str, Any]]:
    text = (directory / "metrics.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def summary_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def failing(step: int, error: BaseException) -> object:
    """A plugin with the optimizer `fails`, which raises in that step."""

    def factory(params: Any, lr: float = 0.01) -> torch.optim.Optimizer:
        class Fails(torch.optim.SGD):
            taken = 0

            def step(self, closure: Any = None) -> Any:
                self.taken += 1
                if self.taken == step:
                    raise error
                return super().step(closure)

        return Fails(params, lr=lr)

    class Plugin:
        @hookimpl
        def playground_optimizers(self) -> list[Optimizer]:
            return [Optimizer("fails", factory)]

    return Plugin()


# From Python


def test_run_gives_a_run_with_its_history_its_metrics_and_its_figure(tmp_path: Path) -> None:
    run = playground.run(data="airfoil", optimizer="adagrad", backend="manual", devices="cpu,cpu")
    assert isinstance(run, Run)
    assert run.status == "done"
    assert [record["step"] for record in run.history] == list(range(0, 601, 20))
    assert run.metrics == {"train_loss": run.history[-1]["train_loss"]}
    assert run.metrics["train_loss"] == pytest.approx(0.2418, abs=1e-3)
    assert run.known_optimum == pytest.approx(0.24169, abs=1e-5)
    assert (run.steps, run.devices) == (600, ["cpu", "cpu"])
    assert isinstance(run.figure(), Figure)
    assert "<svg" in run._repr_html_()
    assert run.directory is not None
    assert run.directory.parent == Path("runs")
    assert run.name == run.directory.name
    assert [line["train_loss"] for line in lines_of(run.directory)] == losses(run)
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_without_a_place_nothing_is_written(tmp_path: Path) -> None:
    run = playground.run(**SMALL, out=None)
    assert (run.status, run.directory) == ("done", None)
    assert run.name.startswith("unsaved-")
    assert run.to_dict()["run_dir"] is None
    assert len(run.history) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [str, Path])
def test_a_place_can_be_a_string_or_a_path(tmp_path: Path, kind: Callable[[str], Any]) -> None:
    run = playground.run(**SMALL, out=kind("somewhere/else"))
    assert run.directory is not None
    assert run.directory.parent == Path("somewhere/else")


def test_python_says_the_same_words_as_the_command_line() -> None:
    run = playground.run(
        data={"name": "linear-regression", "rows": 60},
        model="mlp:hidden=[4]",
        optimizer={"name": "momentum", "momentum": 0.5},
        backend="manual:reduce=ring",
        lr=0.02,
        devices=["cpu", "cpu"],
        epochs=2,
        batch_size=7,
        seed=3,
        eval_every=30,
        evaluate=["train"],
        dtype="float64",
        out=None,
    )
    found = run.experiment.to_dict()
    assert (found["epochs"], found["batch_size"], found["seed"]) == (2, 7, 3)
    assert (found["eval_every"], found["evaluate"], found["dtype"]) == (30, ["train"], "float64")
    assert (found["optimizer"]["lr"], found["optimizer"]["momentum"]) == (0.02, 0.5)
    assert found["model"]["hidden"] == (4,)
    assert (found["backend"]["reduce"], found["backend"]["devices"]) == ("ring", ["cpu", "cpu"])
    # 60 rows are nine batches, the last of four rows.
    assert run.steps == 18
    assert [record["samples"] for record in run.history] == [0, 35, 60, 95, 120]


def test_a_number_of_steps_takes_the_place_of_epochs() -> None:
    run = playground.run(data="linear-regression:rows=60", batch_size=7, steps=20, eval_every=60, out=None)
    # Nine batches an epoch, the last of four rows: two epochs, and two batches of seven.
    assert (run.steps, run.samples, run.epochs_done) == (20, 134, 134 / 60)
    assert [record["step"] for record in run.history] == [0, 9, 18, 20]
    assert (run.experiment.epochs, run.experiment.steps) == (None, 20)


def test_what_went_through_the_replicas_and_the_parameters_are_there_for_who_asks() -> None:
    words = {**SMALL, "backend": "manual:devices=2", "out": None}
    run = playground.run(**words, trace_shapes=True, keep_parameters=True)
    (batch,) = run.shapes
    assert [passage.input for passage in batch.passages] == [(5, 2), (5, 2)]
    assert (batch.input, batch.output) == ((10, 2), (10, 1))
    assert run.parameters is not None
    assert {name: list(value.shape) for name, value in run.parameters.items()} == {"weight": [1, 2], "bias": [1]}
    without = playground.run(**words)
    assert (without.shapes, without.parameters) == ([], None)
    assert losses(without) == losses(run)


def test_the_parameters_of_a_run_are_those_that_its_last_loss_was_measured_with() -> None:
    run = playground.run(data="airfoil", epochs=1, dtype="float64", keep_parameters=True, out=None)
    assert run.parameters is not None
    inputs, targets = (part.double() for part in load().train)
    outputs = inputs @ run.parameters["weight"].T + run.parameters["bias"]
    loss = float((outputs - targets).square().mean()) / 2
    assert run.metrics["train_loss"] == pytest.approx(loss, rel=1e-12)


def test_what_was_timed_is_the_run() -> None:
    run = playground.run(**SMALL, backend="manual:devices=2", out=None)
    assert (run.timed.steps, run.timed.samples, run.timed.seconds) == (12, 120, run.seconds)
    # Two weights and a bias of four bytes each, there and back.
    assert run.timed.moved == 12 * 24
    assert run.sec_per_epoch == pytest.approx(run.seconds / 2, rel=1e-12)
    assert sum(run.timed.ms_per_step.values()) == pytest.approx(1e3 * run.seconds / 12, rel=1e-9)


@pytest.mark.parametrize("status", ["diverged", "failed", "stopped"])
def test_parameters_are_kept_also_of_a_run_that_ends_early_but_not_of_one_that_fails(status: str) -> None:
    class Impatient:
        @hookimpl
        def playground_evaluation(self, run: Run, record: Mapping[str, float | None]) -> None:
            if status == "stopped" and len(run.history) == 3:
                raise KeyboardInterrupt

    registry = registry_with(failing(5 if status == "failed" else 10**9, RuntimeError()), Impatient())
    words = {**SMALL, "optimizer": "fails", "eval_every": 20, "lr": 1e10 if status == "diverged" else 0.1}
    run = execute(Experiment.of(registry, words), registry, None, keep_parameters=True)
    assert run.status == status
    assert (run.parameters is None) == (status == "failed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"epochs": 1, "steps": 1}, "give one of the two"),
        ({"epochs": None, "steps": 0}, "steps must be a whole number, 1 or more, not 0"),
        ({"evaluate": "all"}, "evaluate must be train or test, or both, not 'all'"),
        ({"evaluate": "test"}, "data 'linear-regression' (plugin optim-playground/data"),
        ({"optimizer": "adagrda"}, "did you mean 'adagrad'?"),
        ({"optimizer": 3}, "optimizer must be an expression"),
        ({"optimizer": {"lr": 0.1}}, "optimizer must be an expression"),
        ({"lr": 0}, "lr must be a positive, finite number"),
        ({"lr": "fast"}, "lr must be float"),
        ({"epochs": "3"}, "epochs must be a whole number, 1 or more, not '3'"),
        ({"epochs": 2.5}, "epochs must be a whole number, 1 or more, not 2.5"),
        ({"batch_size": True}, "batch-size must be a whole number, 1 or more, not True"),
        ({"seed": -1}, "seed must be a whole number, 0 or more, not -1"),
        ({"dtype": "float16"}, "dtype must be float32 or float64, not 'float16'"),
        ({"devices": 0, "backend": "manual"}, "devices=0 is out of range"),
        ({"devices": 1.5}, "devices must be int"),
        ({"data": "airfoil:path=missing.dat"}, "cannot read missing.dat"),
        ({"out": "file"}, "cannot make a run in 'file'"),
    ],
)
def test_a_wrong_request_raises_and_writes_nothing(tmp_path: Path, words: dict[str, Any], message: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(RequestError) as caught:
        playground.run(**{**SMALL, **words})
    assert message in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_a_component_that_refuses_raises_with_its_cause() -> None:
    with pytest.raises(ComponentError, match="optimizer 'adam'") as caught:
        playground.run(**SMALL, optimizer="adam:betas=[2,2]")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_run_that_fails_raises_with_its_cause_and_keeps_its_record(tmp_path: Path) -> None:
    cause = ZeroDivisionError("no fifth step")
    with pytest.raises(RunFailedError, match="no fifth step") as caught:
        playground.run(**SMALL, optimizer="fails", eval_every=20, registry=registry_with(failing(5, cause)))
    assert caught.value.__cause__ is cause
    (directory,) = (tmp_path / "runs").iterdir()
    assert summary_of(directory)["status"] == "failed"
    assert [line["step"] for line in lines_of(directory)] == [0, 2, 4]


def test_a_run_that_diverges_is_returned(tmp_path: Path) -> None:
    run = playground.run(lr=1e10)
    assert run.status == "diverged"
    assert run.directory is not None
    assert lines_of(run.directory)[-1]["train_loss"] is None
    assert run.summary()["best"]["step"] == 0


def test_an_interruption_is_raised_and_the_run_is_recorded_as_stopped(tmp_path: Path) -> None:
    class Impatient:
        @hookimpl
        def playground_evaluation(self, run: Run, record: Mapping[str, float | None]) -> None:
            if len(run.history) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        playground.run(**SMALL, eval_every=20, registry=registry_with(Impatient()))
    (directory,) = (tmp_path / "runs").iterdir()
    assert summary_of(directory)["status"] == "stopped"
    assert [line["step"] for line in lines_of(directory)] == [0, 2, 4]


def test_a_registry_can_be_passed_and_another_is_not_touched() -> None:
    mine = registry_with(failing(10**9, RuntimeError()))
    assert playground.run(**SMALL, optimizer="fails", registry=mine, out=None).status == "done"
    with pytest.raises(RequestError, match="unknown optimizer 'fails'"):
        playground.run(**SMALL, optimizer="fails", out=None)
    with pytest.raises(RequestError, match="unknown optimizer 'sgd'"):
        playground.run(**SMALL, optimizer="sgd", registry=Registry(disable=["optimizers"]), out=None)


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=[cpu, cpu]"])
def test_the_same_run_twice_in_one_process_has_the_same_curve_bit_for_bit(backend: str) -> None:
    first = playground.run(**DRAWS, backend=backend, out=None)
    torch.manual_seed(12345)
    torch.rand(7)
    second = playground.run(**DRAWS, backend=backend, out=None)
    assert losses(first) == losses(second)
    assert losses(first) != losses(playground.run(**DRAWS, backend=backend, seed=1, out=None))


def test_a_run_leaves_torch_as_it_was() -> None:
    torch.manual_seed(7)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad():
        playground.run(**DRAWS, backend="manual", devices="cpu,cpu", out=None)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() is torch.float32


# Plugins that watch


@dataclass(eq=False)
class Spy:
    """A plugin that writes down what it is told, and what is on disk at that time."""

    told: list[str] = field(default_factory=list)
    seen: list[list[dict[str, Any]]] = field(default_factory=list)
    records: list[Mapping[str, float | None]] = field(default_factory=list)

    @hookimpl
    def playground_run_start(self, run: Run) -> None:
        assert run.directory is not None
        assert (run.status, run.history) == ("running", [])
        assert json.loads((run.directory / "run.json").read_text(encoding="utf-8"))["name"] == run.name
        self.told.append("start")

    @hookimpl
    def playground_evaluation(self, run: Run, record: Mapping[str, float | None]) -> None:
        assert run.directory is not None
        assert run.status == "running"
        assert record is run.history[-1] or record == run.history[-1]
        self.told.append("evaluation")
        self.records.append(dict(record))
        self.seen.append(lines_of(run.directory))

    @hookimpl
    def playground_run_end(self, run: Run) -> None:
        assert run.directory is not None
        assert summary_of(run.directory)["status"] == run.status
        self.told.append(f"end {run.status}")


def test_a_metrics_line_is_on_disk_before_anybody_is_told_of_it() -> None:
    spy = Spy()
    with warnings.catch_warnings():
        # What a hook raises becomes a warning, and this would be an assertion of the spy's.
        warnings.simplefilter("error")
        run = playground.run(**SMALL, eval_every=20, registry=registry_with(spy))
    assert len(spy.seen) == len(run.history) == 7
    for number, lines in enumerate(spy.seen, start=1):
        assert lines == run.history[:number]
    assert spy.records == run.history


def test_a_plugin_is_told_of_the_start_each_evaluation_and_the_end() -> None:
    spy = Spy()
    playground.run(**SMALL, registry=registry_with(spy))
    assert spy.told == ["start", "evaluation", "evaluation", "end done"]


@pytest.mark.parametrize(
    ("words", "end"),
    [({"lr": 1e10}, "end diverged"), ({"optimizer": "fails"}, "end failed")],
)
def test_a_plugin_is_told_of_every_end(words: dict[str, Any], end: str) -> None:
    spy = Spy()
    try:
        playground.run(**{**SMALL, **words}, registry=registry_with(failing(3, RuntimeError("no third step")), spy))
    except RunFailedError:
        assert end == "end failed"
    assert spy.told[-1] == end


class Raises:
    """A plugin whose hooks all raise."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @hookimpl
    def playground_run_start(self, run: Run) -> None:
        raise self.error

    @hookimpl
    def playground_evaluation(self, run: Run, record: Mapping[str, float | None]) -> None:
        raise self.error

    @hookimpl
    def playground_run_end(self, run: Run) -> None:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("not today"), SystemExit(0), AssertionError()])
def test_a_hook_that_raises_is_reported_and_changes_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    expected = playground.run(**DRAWS, out=None)
    spy = Spy()
    run = playground.run(**DRAWS, registry=registry_with(Raises(error), spy))
    assert run.status == "done"
    assert losses(run) == losses(expected)
    texts = caplog.messages
    assert len(texts) == 2 + len(run.history)
    for hook in ("playground_run_start", "playground_evaluation", "playground_run_end"):
        assert any(f"failed in {hook}: {type(error).__name__}" in text for text in texts)
    # Those who come after are told all the same, and the log says it too.
    assert spy.told == ["start", *["evaluation"] * len(run.history), "end done"]
    assert run.directory is not None
    log = (run.directory / "log.txt").read_text(encoding="utf-8")
    assert log.count("failed in playground_evaluation") == len(run.history)


@dataclass
class Unhashable:
    """A plugin that is an object which cannot be hashed, as a dataclass cannot."""

    told: list[str] = field(default_factory=list)

    @hookimpl
    def playground_run_end(self, run: Run) -> None:
        self.told.append(run.status)


@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_a_plugin_that_is_an_object_of_any_class_is_told_and_keeps_nobody_from_being_told(name: str) -> None:
    spy, unhashable = Spy(), Unhashable()
    registry = registry_with(unhashable, spy, name=name)
    assert [(plugin.name, plugin.reason) for plugin in registry.plugins if plugin.status != "ok"] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        playground.run(**SMALL, registry=registry)
    assert spy.told == ["start", "evaluation", "evaluation", "end done"]
    assert unhashable.told == ["done"]


class Draws:
    """A plugin whose hooks draw random numbers, and print."""

    @hookimpl
    def playground_run_start(self, run: Run) -> None:
        print("start", torch.rand(3))

    @hookimpl
    def playground_evaluation(self, run: Run, record: Mapping[str, float | None]) -> None:
        torch.manual_seed(5)
        print("evaluation", torch.rand(3))


@pytest.mark.parametrize("backend", ["single:devices=cpu", "manual:devices=[cpu, cpu]"])
def test_a_hook_that_draws_random_numbers_and_prints_changes_nothing(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = playground.run(**DRAWS, backend=backend, eval_every=20, out=None)
    run = playground.run(**DRAWS, backend=backend, eval_every=20, out=None, registry=registry_with(Draws()))
    assert "evaluation tensor" in capsys.readouterr().out
    assert losses(run) == losses(expected)


HOOKS = """
from playground import hookimpl

@hookimpl
def playground_evaluation(run, record):
    import torch
    print("evaluated", torch.rand(2))
    if record["step"] == 20:
        raise ValueError("twenty is\\nenough")
"""


def test_the_command_line_reports_a_hook_that_raises_in_one_line_and_ends_well(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
) -> None:
    plain = call("run", "--epochs", 1, "--json").json
    in_process_plugins(install_plugin("optim-hooks", HOOKS, "hooks"))
    done = call("run", "--epochs", 1, "--json")
    assert done.code == 0
    assert done.json["metrics"] == plain["metrics"]
    assert "evaluated" in done.err
    (line,) = [line for line in done.err.splitlines() if "playground_evaluation" in line]
    assert line == "note: plugin optim-hooks/hooks failed in playground_evaluation: ValueError: twenty is enough"


# Several at once


def test_threads_that_run_at_the_same_time_get_a_directory_and_the_right_numbers_each(tmp_path: Path) -> None:
    def losses_of(seed: int, out: str | None) -> list[float | None]:
        return losses(playground.run(**DRAWS, seed=seed, eval_every=20, backend="single:devices=cpu", out=out))

    seeds = range(8)
    alone = [losses_of(seed, None) for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda seed: losses_of(seed, "runs"), seeds)) == alone
    directories = list((tmp_path / "runs").iterdir())
    assert len(directories) == len(seeds)
    recorded = [[line["train_loss"] for line in lines_of(directory)] for directory in directories]
    assert sorted(recorded) == sorted(alone)
    assert all(summary_of(directory)["status"] == "done" for directory in directories)


AT_ONCE = """
import io, multiprocessing, sys
import playground

def work(together):
    together.wait()
    run = playground.run(data="linear-regression:rows=60", epochs=2)
    # One write a line: four processes share the pipe, and print writes the line's end by itself.
    sys.stdout.write(f"{run.name} {[record['train_loss'].hex() for record in run.history]}\\n")
    sys.stdout.flush()

if __name__ == "__main__":
    # Whatever is slow at the first time is done here, so that all four do the same at the same time.
    playground.run(data="linear-regression:rows=60", epochs=2, out=None).figure().savefig(io.StringIO(), format="svg")
    fork = multiprocessing.get_context("fork")
    together = fork.Barrier(4)
    workers = [fork.Process(target=work, args=(together,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(max(worker.exitcode for worker in workers))
"""


def test_processes_that_start_at_the_same_moment_get_a_whole_directory_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    names, curves = zip(*(line.split(" ", 1) for line in done.stdout.splitlines()), strict=True)
    assert len(set(names)) == 4
    assert len(set(curves)) == 1
    assert {path.name for path in (tmp_path / "runs").iterdir()} == set(names)
    for directory in (tmp_path / "runs").iterdir():
        assert {path.name for path in directory.iterdir()} == {
            "run.json",
            "metrics.jsonl",
            "summary.json",
            "figure.svg",
        }
        assert [line["step"] for line in lines_of(directory)] == [0, 12]
        assert json.loads((directory / "run.json").read_text(encoding="utf-8"))["name"] == directory.name
        assert summary_of(directory)["status"] == "done"


# Trouble


def test_a_figure_that_cannot_be_drawn_is_a_note(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_ink(*_: object) -> NoReturn:
        raise RuntimeError("no ink")

    monkeypatch.setattr("playground.figures.curve", no_ink)
    done = call("run", "--data", "linear-regression:rows=20")
    assert done.code == 0
    assert done.out.startswith("loss: ")
    (directory,) = (tmp_path / "runs").iterdir()
    assert f"note: figure.svg of {directory.name} could not be written: RuntimeError: no ink" in done.err.splitlines()
    assert {path.name for path in directory.iterdir()} == {"run.json", "metrics.jsonl", "summary.json", "log.txt"}
    assert summary_of(directory)["status"] == "done"
    assert "no ink" in (directory / "log.txt").read_text(encoding="utf-8")


def full(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_a_summary_that_cannot_be_written_makes_the_run_fail(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(RunDirectory, "summarise", full)
    done = call("run", "--data", "linear-regression:rows=20")
    # The record is what a run is for, so a run without its summary has failed.
    assert (done.code, done.out) == (1, "")
    note, error = [line for line in done.err.splitlines() if "No space left on device" in line]
    assert note.startswith("note: summary.json of ")
    assert error.startswith("error: the run failed after step ")
    assert "Traceback" not in done.err


def test_a_record_that_cannot_be_written_makes_the_run_fail_with_the_reason(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    append, written = RunDirectory.append, []

    def filling(self: RunDirectory, record: Mapping[str, Any]) -> None:
        if len(written) == 3:
            full()
        written.append(record)
        append(self, record)

    monkeypatch.setattr(RunDirectory, "append", filling)
    done = call("run", "--epochs", 1, "--progress", "none")
    assert (done.code, done.out) == (1, "")
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "No space left on device" in line
    assert "Traceback" not in done.err
    (directory,) = (tmp_path / "runs").iterdir()
    assert [line["step"] for line in lines_of(directory)] == [0, 20, 40]
    assert summary_of(directory)["status"] == "failed"
    assert "No space left on device" in summary_of(directory)["error"]


WITH_SMALL_FILES = """
import resource
# From the 4097th byte on, a file is like one on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from playground.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_when_the_record_hits_a_full_disk_the_run_fails_and_the_summary_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_SMALL_FILES, "run", "--progress", "none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "File too large" in line
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    *whole, torn = (directory / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["step"] for line in whole] == [20 * number for number in range(len(whole))]
    assert len(whole) > 10
    assert len(torn) < 200
    # The disk refused one file; it did not refuse this one.
    summary = summary_of(directory)
    assert summary["status"] == "failed"
    assert "File too large" in summary["error"]
    assert not [path for path in directory.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_is_full_for_good_ends_the_run_without_a_traceback(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create = RunDirectory.create

    def onto_a_full_device(root: Path, facts: Mapping[str, Any]) -> RunDirectory:
        directory = create(root, facts)
        directory.close()
        (directory.path / "metrics.jsonl").unlink()
        (directory.path / "metrics.jsonl").symlink_to("/dev/full")
        return RunDirectory(directory.path)

    monkeypatch.setattr(RunDirectory, "create", onto_a_full_device)
    done = call("run", "--data", "linear-regression:rows=20")
    assert (done.code, done.out) == (1, "")
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "No space left on device" in line
    assert "Traceback" not in done.err
    (directory,) = (tmp_path / "runs").iterdir()
    assert summary_of(directory)["status"] == "failed"


def test_no_git_and_no_repository_are_no_trouble(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert call("run", "--data", "linear-regression:rows=20").code == 0
    (directory,) = (tmp_path / "runs").iterdir()
    assert json.loads((directory / "run.json").read_text(encoding="utf-8"))["git"] is None
