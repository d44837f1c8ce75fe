"""`playground new-plugin`: what it writes works as it is written."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = ("optimizer", "model", "data", "backend")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_installed_listed_checked_and_passes_its_own_tests(
    kind: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    written = cli("new-plugin", "my-own", "--kind", kind)
    assert (written.code, written.out) == (0, "playground-my-own\n")
    assert written.err.startswith("next: playground install -e playground-my-own && playground check ")
    project, site = tmp_path / "playground-my-own", tmp_path / "site"
    assert {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()} == {
        *("pyproject.toml", "README.md", "playground_my_own/__init__.py", f"playground_my_own/{kind}.py"),
        "tests/test_conformance.py",
    }
    assert "$" not in "".join(path.read_text() for path in project.rglob("*") if path.is_file())
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([*pip, str(site), str(project)], check=True, capture_output=True)
    env = {"PYTHONPATH": str(site)}
    listed = [row for row in cli("list", kind, "--json", env=env).json if row["distribution"] == "playground-my-own"]
    assert [(row["name"], row["kind"], row["version"]) for row in listed] == [("my-own", kind, "0.1.0")]
    checked = cli("check", "--plugin", "my-own", env=env)
    assert checked.code == 0, checked.out
    assert " 0 failed" in checked.out
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=project,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    ran = cli("run", f"--{kind}", "my-own", "--epochs", 1, env=env)
    assert ran.code == 0, ran.err


def test_the_prefix_may_be_said_and_dots_are_no_trouble(call: Callable[..., Any], tmp_path: Path) -> None:
    assert call("new-plugin", "playground-lion").out == "playground-lion\n"
    assert call("new-plugin", "lion.v2", "--out", "deep/er").out == "deep/er/playground-lion.v2\n"
    assert (tmp_path / "deep" / "er" / "playground-lion.v2" / "playground_lion_v2" / "optimizer.py").is_file()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Lion",
        "2lions",
        "lion!",
        "../lion",
        "a b",
        "lion-",
        "playground-",
        "löwe",
        "-x",
        "none",
        "true",
        "playground-false",
    ],
)
def test_a_name_that_is_none_is_refused_and_nothing_is_written(
    name: str, call: Callable[..., Any], tmp_path: Path
) -> None:
    done = call("new-plugin", "--", name)
    assert (done.code, done.out) == (2, "")
    assert "is no name for a plugin" in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "playground-lion").mkdir()
    (tmp_path / "playground-lion" / "mine").write_text("mine")
    done = call("new-plugin", "lion")
    assert (done.code, done.err) == (2, "error: playground-lion is there already; nothing was written\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["playground-lion", "mine"]


def test_a_name_that_is_taken_is_refused(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("new-plugin", "adam")
    said = "error: optim-playground provides optimizer 'adam': choose another name for yours\n"
    assert (done.code, done.out, done.err) == (2, "", said)
    assert list(tmp_path.iterdir()) == []
    # Of another kind it is another thing.
    assert call("new-plugin", "adam", "--kind", "model").code == 0


def test_a_place_that_cannot_be_written_to_is_named(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call("new-plugin", "lion", "--out", "file")
    assert done.code == 2
    assert done.err.startswith("error: cannot write file/playground-lion: ")
    assert len(done.err.splitlines()) == 1
