"""Start-up: what only looks around imports neither torch nor matplotlib nor numpy."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import playground
import playground.errors

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("matplotlib", "numpy", "torch")

REPORT = f"""
import sys
try:
    {{statement}}
finally:
    print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""


def loaded(statement: str, cwd: Path, *arguments: str, code: int = 0) -> list[str]:
    """The heavy packages that a new interpreter has imported after a statement."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(statement=statement), *arguments],
        cwd=cwd,
        env={**os.environ, "PLAYGROUND_DISABLE_PLUGINS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    word, *found = done.stderr.splitlines()[-1].split()
    assert word == "loaded:"
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--json"],
        ["list", "optimizer"],
        ["list", "--no-plugin", "optimizers"],
        ["data", "--help"],
        ["data", "list"],
        ["data", "list", "--json"],
        ["data", "path", "airfoil"],
        ["run", "--help"],
        ["show", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_that_only_looks_around_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    assert loaded("from playground.cli import main; main(sys.argv[1:])", tmp_path, *arguments) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["lst"],
        ["list", "nothing"],
        ["list", "--no-plugin", "nothing"],
        ["data", "path", "nothing"],
        ["show", "optimizer", "nothing"],
        ["run", "--epochs", "many"],
        ["run", "--data", "nothing"],
        ["run", "absent.toml"],
    ],
    ids=" ".join,
)
def test_a_request_that_is_refused_at_sight_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    assert loaded("from playground.cli import main; main(sys.argv[1:])", tmp_path, *arguments, code=2) == []


@pytest.mark.parametrize(
    "statement",
    [
        "import playground",
        "import playground; dir(playground)",
        "from playground import Backend, Data, Model, Optimizer, hookimpl",
        "from playground import Registry; Registry()",
        "from playground import ComponentError, Experiment, PlaygroundError, RequestError, RunFailedError",
        "import playground_plugins.data, playground_plugins.models, playground_plugins.optimizers",
        "import playground_plugins.backends",
    ],
)
def test_what_a_plugin_needs_to_describe_itself_imports_nothing_heavy(statement: str, tmp_path: Path) -> None:
    assert loaded(statement, tmp_path) == []


def test_the_test_sees_what_is_loaded(tmp_path: Path) -> None:
    assert loaded("import numpy", tmp_path) == ["numpy"]


# The public names


@pytest.mark.parametrize("name", playground.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(playground, name)
    assert value is not None
    assert name in dir(playground)
    # Found once, it is kept: later uses cost nothing.
    assert vars(playground)[name] is value


def test_public_names_are_sorted_and_none_is_there_twice() -> None:
    assert sorted(set(playground.__all__)) == playground.__all__


def test_all_public_names_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from playground import *", names)
    assert set(playground.__all__) <= set(names)


def test_a_public_name_is_the_very_object_of_its_home() -> None:
    assert playground.RequestError is playground.errors.RequestError
    assert playground.Registry is importlib.import_module("playground.registry").Registry
    assert playground.run is importlib.import_module("playground.runs.execution").run


def test_a_name_that_is_not_public_is_missed_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match=r"^module 'playground' has no attribute 'nothing'$"):
        playground.nothing  # noqa: B018 - reading it is what raises
    assert not hasattr(playground, "torch")
