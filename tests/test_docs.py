"""What the documentation says exists, and what exists is documented."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import playground
from playground import hookspecs
from playground.cli import cli as command_line
from playground.components import KINDS
from playground.engine.ledger import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _commands(group: click.Group, path: str = "playground") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            if any(parameter.name == "as_json" for parameter in command.params):
                yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@pytest.mark.parametrize(("path", "command"), list(_commands(command_line)), ids=lambda value: str(value))
def test_every_command_and_option_is_documented(path: str, command: click.Command) -> None:
    page = _read("cli.md")
    assert f"`{path}" in page
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for word in parameter.opts:
                assert re.search(rf"`{re.escape(word)}[ `]", page), word


@pytest.mark.parametrize("hook", [name for name in vars(hookspecs) if name.startswith("playground_")])
def test_every_hook_is_documented_with_its_arguments(hook: str) -> None:
    code = getattr(hookspecs, hook).__code__
    assert f"`{hook}({', '.join(code.co_varnames[: code.co_argcount])})`" in _read("plugins.md")
    assert getattr(hookspecs, hook).__doc__


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: str(kind.kind))
def test_every_field_of_a_component_is_documented(kind: type) -> None:
    for field in dataclasses.fields(kind):
        assert f"`{field.name}`" in _read("plugins.md"), field.name
        assert field.name in (kind.__doc__ or "") + (KINDS["data"].__mro__[1].__doc__ or ""), field.name


@pytest.mark.parametrize("field", dataclasses.fields(playground.Dataset), ids=lambda field: field.name)
def test_every_field_of_a_dataset_is_documented(field: dataclasses.Field[Any]) -> None:
    assert f"`{field.name}`" in _read("plugins.md")


@pytest.mark.parametrize("method", sorted(playground.ParallelBackend.__abstractmethods__))
def test_every_method_of_the_backend_contract_is_documented(method: str) -> None:
    assert re.search(rf"`[^`|]*\b{method}\b", _read("plugins.md"))
    assert getattr(playground.ParallelBackend, method).__doc__


def test_every_key_of_a_record_is_documented(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("run", "--data", "airfoil:rows=400,holdout=0.5", "--epochs", 1, "--json")
    (directory,) = (tmp_path / "runs").iterdir()
    page = _read("runs.md")
    for name in ("run.json", "summary.json"):
        for key in json.loads((directory / name).read_text()):
            assert f"`{key}`" in page, (name, key)
    for key in json.loads((directory / "metrics.jsonl").read_text().splitlines()[-1]):
        assert f"`{key}`" in page, key
    for key in done.json:
        assert f"`{key}`" in _read("cli.md"), key


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_of_the_conformance_kit_is_documented_with_what_it_demands(kind: str) -> None:
    from playground.conformance.report import checks_of

    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", _read("conformance.md"), re.MULTILINE)
    assert {(one.name, one.demand) for one in checks_of(kind)} <= set(rows)


def test_every_phase_of_a_step_is_documented() -> None:
    for phase in [*PHASES, "other"]:
        assert re.search(rf"^\| `{phase}` \|", _read("runs.md"), re.MULTILINE), phase


def test_every_word_of_playground_run_is_documented() -> None:
    for word in inspect.signature(playground.run).parameters:
        assert f"`{word}`" in _read("python.md"), word


@pytest.mark.parametrize("setting", sorted(playground.Data.SETTINGS))
def test_every_setting_of_data_is_documented(setting: str) -> None:
    (row,) = re.findall(r"^\| `Data` .*", _read("plugins.md"), re.MULTILINE)
    assert f"`{setting}`" in row.split("`origin`")[0]


@pytest.mark.parametrize("name", ["ParallelBackend", "ReplicaBackend", "Seen", "ShardError", "StepResult", "Team"])
def test_what_a_backend_is_made_with_is_documented(name: str) -> None:
    assert name in playground.__all__
    assert re.search(rf"`{name}\b", _read("plugins.md"))


def test_the_shapes_and_parameters_that_the_page_shows_are_those_that_are_printed(call: Callable[..., Any]) -> None:
    (command, shown) = re.search(
        r"```console\n\$ playground ([^\n]*--trace-shapes[^\n]*)\n(.*?)```", _read("cli.md"), re.DOTALL
    ).groups()
    done = call(*command.split(), "--progress", "none")
    assert done.code == 0
    printed, expected = done.out.splitlines(), shown.splitlines()
    assert len(printed) == len(expected)
    number = re.compile(r"\d+\.\d+")
    for one, other in zip(printed, expected, strict=True):
        assert number.sub("#", one) == number.sub("#", other)
        if "sec/epoch" not in one:
            assert [float(value) for value in number.findall(one)] == pytest.approx(
                [float(value) for value in number.findall(other)], abs=1e-3
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "python.md"], ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert names["run"].status == "done"


def test_the_backend_of_the_tutorial_equals_a_single_device(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(# playground_tree.*?)```", _read("plugins.md"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "plugins.md", "exec"), names)
    from playground.components import Backend
    from playground.discovery import Plugin
    from playground.registry import Registration

    registry = playground.Registry()
    plugin = Plugin("tree", "playground_tree", "playground-tree", "1")
    registry.components.append(Registration(Backend("tree", names["Tree"]), plugin, "tree"))
    losses = [
        playground.run(backend=backend, epochs=1, dtype="float64", out=None, registry=registry).metrics["train_loss"]
        for backend in ("single", "tree:devices=3")
    ]
    # 150 steps of float64 sums in another order: some hundred roundings of 1e-16.
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_the_averaging_backend_of_the_tutorial_keeps_what_an_inexact_one_promises() -> None:
    from playground.components import Backend
    from playground.conformance import check

    names: dict[str, Any] = {"ReplicaBackend": playground.ReplicaBackend}
    (block,) = re.findall(r"```python\n(class Average.*?)```", _read("plugins.md"), re.DOTALL)
    exec(compile(block, "plugins.md", "exec"), names)
    assert check("backend", Backend("average", names["Average"], exact=False)).passed


def test_the_optimizer_of_the_tutorial_is_installed_by_pip_and_trains(tmp_path: Path) -> None:
    """Every file as the page gives it, a real pip, and a run that finds the plugin."""
    project, site = tmp_path / "project", tmp_path / "site"
    (project / "playground_lion").mkdir(parents=True)
    page = _read("plugins.md")
    files = re.findall(
        r"```\w+\n# (?:playground-lion/)?(playground_lion/[\w.]+|setup\.cfg|pyproject\.toml)[^\n]*\n(.*?)```",
        page,
        re.DOTALL,
    )
    assert {name for name, _ in files} == {
        "playground_lion/__init__.py",
        "playground_lion/optimizer.py",
        "setup.cfg",
        "pyproject.toml",
    }
    for name, text in files:
        (project / name).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", site, project], check=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "playground", "run", "-o", "lion:lr=0.01", "-b", "manual:devices=2", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True, timeout=120)
    result = json.loads(done.stdout)
    assert result["experiment"]["optimizer"]["name"] == "lion"
    # The least squares optimum is 0.2417; a sign method keeps a distance of the order of its rate.
    assert 0.2417 < result["metrics"]["train_loss"] < 0.27


def test_the_tutorial_goes_from_nothing_to_a_checked_component(
    new_environment: Callable[..., Any], tmp_path: Path
) -> None:
    """Its commands and its file as the page gives them, in an environment of its own."""
    environment = new_environment("venv")
    tutorial = _read("plugins.md").split("## From nothing")[1].split("\n## ")[0]
    outputs, folder = [], tmp_path
    for language, text in re.findall(r"```(\w+)\n(.*?)```", tutorial, re.DOTALL):
        if language == "python":
            name = text.splitlines()[0].removeprefix("# ")
            assert (tmp_path / name).is_file()
            (tmp_path / name).write_text(text)
            continue
        for line in text.splitlines():
            words = shlex.split(line)
            if words[0] == "cd":
                folder = folder / words[1]
                continue
            arguments = words[1:] if words[0] == "python" else ["-m", *words]
            done = dataclasses.replace(environment, cwd=folder).run(*arguments)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            outputs.append(done.stdout)
    assert outputs[0] == "playground-lion\n"
    assert re.search(r"^lr +float +0\.0001 +the size of a step", outputs[2], re.MULTILINE)
    assert "Sign of an interpolated momentum" in outputs[2]
    assert re.search(r"^1[45] passed, 0 failed", outputs[3], re.MULTILINE)
    assert outputs[-1] == "removed playground-lion 0.1.0: optimizer lion\n"


@pytest.mark.parametrize("command", ["playground run", "pytest"])
def test_continuous_integration_runs_the_commands_that_the_readme_gives(command: str) -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if re.match(rf"python -m pip install .*{command}", line)]) == 1
    assert f"command_of '{command}'" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
