"""`playground check`, and the kit as pytest classes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRONG = """
import torch
from playground import Optimizer, Model, hookimpl

class Upwards(torch.optim.SGD):
    def __init__(self, params, lr: float = 0.01):
        super().__init__(params, lr=lr, maximize=True)

def refuses(inputs, outputs):
    raise ValueError("no shape is right for me")

@hookimpl
def playground_optimizers():
    return [Optimizer("upwards", Upwards), Optimizer("lost", "no_such_module:Lost")]

@hookimpl
def playground_models():
    return [Model("refuses", refuses)]
"""


@pytest.fixture
def wrong(install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[..., None]) -> None:
    in_process_plugins(install_plugin("optim-wrong", WRONG, "wrong"))


def test_a_table_of_checks_is_printed_and_what_passes_ends_with_0(call: Callable[..., Any]) -> None:
    done = call("check", "optimizer", "adam:amsgrad=true")
    assert done.code == 0
    heading, columns, *rows, sums = done.out.splitlines()
    assert heading == "optimizer adam:amsgrad=true (plugin optim-playground/optimizers 0.1.0)"
    assert columns.split() == ["verdict", "check", "evidence"]
    verdicts = [row.split()[0] for row in rows]
    assert set(verdicts) == {"pass", "n/a"}
    assert sums == f"{verdicts.count('pass')} passed, 0 failed, {verdicts.count('n/a')} not applicable"


@pytest.mark.usefixtures("wrong")
def test_a_failure_is_shown_with_its_evidence_and_ends_with_1(call: Callable[..., Any]) -> None:
    done = call("check", "optimizer", "upwards", "--json")
    assert done.code == 1
    (report,) = done.json
    assert report.keys() == {"kind", "component", "plugin", "distribution", "version", "passed", "checks"}
    assert report["passed"] is False
    checks = {row["check"]: row for row in report["checks"]}
    assert checks["lowers-a-convex-loss"]["verdict"] == "fail"
    assert checks["lowers-a-convex-loss"]["evidence"].startswith("the loss goes from ")
    assert checks["equals-its-reference"] == {
        "check": "equals-its-reference",
        "verdict": "n/a",
        "evidence": "its component names none",
        "demand": "Where the component names a reference, 20 steps with the same parameters give the same numbers.",
    }


@pytest.mark.usefixtures("wrong")
def test_of_a_failure_the_demand_is_said_and_the_traceback_where_it_is_asked_for(call: Callable[..., Any]) -> None:
    done = call("check", "model", "refuses")
    assert done.code == 1
    assert "is-a-model asks for: " in done.out
    assert "Traceback" not in done.out + done.err
    done = call("check", "model", "refuses", "--debug")
    assert "Traceback" in done.err
    assert "in refuses" in done.err


@pytest.mark.usefixtures("wrong")
def test_a_plugin_is_checked_with_all_its_components(call: Callable[..., Any]) -> None:
    done = call("check", "--plugin", "optim-wrong", "--json")
    assert done.code == 1
    assert [report["component"] for report in done.json] == ["refuses", "lost", "upwards"]
    model, lost, _ = done.json
    assert "no shape is right for me" in model["checks"][1]["evidence"]
    # A factory that cannot be loaded is a failure with its cause, and the others are checked.
    assert {row["verdict"] for row in lost["checks"]} == {"fail"}
    assert "No module named 'no_such_module'" in lost["checks"][0]["evidence"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "say what to check: KIND and NAME"),
        (("optimizer",), "say what to check: KIND and NAME"),
        (("optimizer", "adma"), "unknown optimizer 'adma'; did you mean 'adam'?"),
        (("optimizer", "adam:lrr=1"), "optimizer 'adam' has no parameter 'lrr'; did you mean 'lr'?"),
        (("optimizer", "adam:lr=x"), "optimizer 'adam': lr must be float"),
        (("optimizer", "adam", "--plugin", "models"), "say KIND and NAME or --plugin NAME, not both"),
        (("--plugin", "optimizer"), "there is no plugin 'optimizer'; did you mean 'optimizers'?"),
        (("nonsense", "adam"), "there is no kind 'nonsense'; there are: data, model, optimizer, backend"),
        (("optimizers", "adam"), "there is no kind 'optimizers'; did you mean 'optimizer'?"),
        (("adam",), "there is no kind 'adam'; did you mean 'optimizer adam'?"),
    ],
)
def test_a_wrong_request_is_refused_in_a_line(arguments: tuple[str, ...], what: str, call: Callable[..., Any]) -> None:
    done = call("check", *arguments)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert len(done.err.splitlines()) == 1


def test_a_plugin_that_is_broken_is_refused_with_its_reason(
    call: Callable[..., Any], install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[..., None]
) -> None:
    in_process_plugins(install_plugin("optim-broken", "raise RuntimeError('no such luck')", "broken"))
    done = call("check", "--plugin", "broken")
    assert (done.code, done.out) == (2, "")
    assert "plugin optim-broken/broken is broken: import failed: RuntimeError: no such luck" in done.err


def test_a_misspelt_name_does_not_wait_for_torch(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')")
    done = cli("check", "optimizer", "adma", env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.err) == (2, "error: unknown optimizer 'adma'; did you mean 'adam'?\n")


def test_streams_of_random_numbers_and_defaults_are_left_as_they_were() -> None:
    import random

    import torch

    from playground.conformance import check

    def drawn() -> tuple[Any, ...]:
        return random.getstate(), torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.is_grad_enabled()

    before = drawn()
    for kind, component in (("model", "mlp"), ("data", "linear-regression"), ("optimizer", "sgd:lr=0.1")):
        assert check(kind, component).passed
        assert drawn() == before, kind


def test_a_backend_is_tried_on_the_devices_that_are_asked_for(call: Callable[..., Any]) -> None:
    done = call("check", "backend", "manual:devices=4", "--json")
    assert done.code == 0, done.out
    (report,) = done.json
    evidence = {row["check"]: row["evidence"] for row in report["checks"]}
    assert report["component"] == "manual:devices=4"
    assert evidence["equals-one-device"] == "on 1, 2, 3, 4, 5 replicas, to 1e-10"


TESTS = """
import torch
from playground import Model, Optimizer
from playground.conformance import ModelConformance, OptimizerConformance

class Upwards(torch.optim.SGD):
    def __init__(self, params, lr: float = 0.01):
        super().__init__(params, lr=lr, maximize=True)

class TestRight(OptimizerConformance):
    component = "sgd:lr=0.1"

class TestWrong(OptimizerConformance):
    component = Optimizer("upwards", Upwards)

class TestModel(ModelConformance):
    component = "mlp:hidden=[4]"

class TestNothing(ModelConformance):
    pass

class TestLost(ModelConformance):
    component = Model("lost", "json:Nothing")

class TestFound(TestLost):
    component = "mlp:hidden=[4]"
"""


def test_the_kit_is_a_set_of_pytest_classes(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "test_mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    ends = dict(reversed(line.split(" ")[:2]) for line in done.stdout.splitlines() if "::test_conformance[" in line)
    # Where a test that decides fails, the others are skipped, and not those of a class that is made of it.
    lost = {name.partition("[")[2]: end for name, end in ends.items() if "TestLost" in name}
    assert lost.pop("is-loaded]") == "FAILED"
    assert lost == {}
    assert "is-loaded fails" in done.stdout
    assert {end for name, end in ends.items() if "TestFound" in name} == {"PASSED"}
    wrong = {
        name for name, end in ends.items() if end == "FAILED" and name.split("::")[1] in ("TestRight", "TestWrong")
    }
    assert "test_mine.py::TestWrong::test_conformance[lowers-a-convex-loss]" in wrong
    assert all("TestWrong" in name for name in wrong)
    assert ends["test_mine.py::TestRight::test_conformance[lowers-a-convex-loss]"] == "PASSED"
    assert ends["test_mine.py::TestModel::test_conformance[evaluation-changes-nothing]"] == "PASSED"
    assert "the loss goes from" in done.stdout
    assert "TestNothing names no component" in done.stdout
    assert "its component names none" in done.stdout
