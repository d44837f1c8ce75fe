"""`playground plugins`, and a machine full of bad ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAVY = """
import torch
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimizers():
    return [Optimizer("heavy", torch.optim.SGD, defaults={"lr": 0.1})]
"""

QUIET = """
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimizers():
    return [Optimizer("quiet-{0}", "torch.optim:SGD", defaults={{"lr": 0.1}})]
"""


def test_every_plugin_is_listed_with_what_it_provides(call: Callable[..., Any]) -> None:
    done = call("plugins", "--json")
    assert (done.code, done.err) == (0, "")
    rows = {row["name"]: row for row in done.json}
    assert list(rows) == ["backends", "data", "models", "optimizers"]
    for row in rows.values():
        assert (row["distribution"], row["status"], row["reason"], row["remarks"]) == ("optim-playground", "ok", "", [])
        assert 0 <= row["import_seconds"] < 60
    assert rows["models"]["provides"] == ["model lenet", "model linear", "model mlp", "model resnet18"]
    text = call("plugins")
    assert text.out.splitlines()[0].split() == ["plugin", "distribution", "version", "status", "import", "provides"]
    assert text.err == ""


def test_bad_plugins_together_are_each_reported_and_nothing_else_suffers(
    bad: dict[str, str], cli: Callable[..., Any]
) -> None:
    listed = cli("plugins", "--json", env=bad)
    assert listed.code == 0
    rows = {row["name"]: row for row in listed.json}
    assert {name: row["status"] for name, row in rows.items()} == {
        **dict.fromkeys(("backends", "data", "models"), "ok"),
        "broken": "broken",
        "misspelt": "broken",
        "noisy": "ok",
        "optimizers": "clashing",
        "rival": "clashing",
        "slow": "ok",
    }
    assert "RuntimeError: no such luck" in rows["broken"]["reason"]
    assert rows["broken"]["mend"] == "repair or reinstall it, or remove it: playground uninstall optim-broken"
    assert "did you mean 'playground_optimizers'?" in rows["misspelt"]["reason"]
    assert rows["slow"]["import_seconds"] >= 5
    assert rows["slow"]["remarks"] == [f"takes {rows['slow']['import_seconds']:.1f} s to import"]
    assert rows["noisy"]["remarks"] == ["prints while it is imported"]
    assert rows["rival"]["provides"] == ["optimizer optim-rival/adam"]
    # What it prints is not lost, but it is no result.
    for word in ("print", "descriptor 1", "a child", "write", "a hook"):
        assert f"hello from {word}" in listed.err


def test_with_bad_plugins_help_list_and_run_work(bad: dict[str, str], cli: Callable[..., Any]) -> None:
    shown = cli("--help", env=bad)
    assert (shown.code, shown.err) == (0, "")
    listed = cli("list", "--json", env=bad)
    assert listed.code == 0
    assert {row["name"] for row in listed.json if row["kind"] == "plugin"} == {
        *("broken", "misspelt", "rival", "optimizers"),
    }
    trained = cli("run", "--optimizer", "noisy", "--epochs", 1, "--json", env=bad)
    assert trained.code == 0, trained.err
    assert trained.json["status"] == "done"


def test_a_plugin_that_imports_torch_to_be_listed_is_told_so(
    install_plugin: Callable[..., dict[str, str]], cli: Callable[..., Any]
) -> None:
    done = cli("plugins", env=install_plugin("optim-heavy", HEAVY, "heavy"))
    assert done.code == 0
    assert "plugin optim-heavy/heavy imports torch to be listed" in done.err


def test_twenty_plugins_are_listed_without_torch(
    install_plugin: Callable[..., dict[str, str]], cli: Callable[..., Any], tmp_path: Path
) -> None:
    env: dict[str, str] = {}
    for number in range(20):
        env = install_plugin(f"optim-quiet-{number}", QUIET.format(number), env=env)
    # Any import of torch or matplotlib ends the process.
    (tmp_path / "no" / "torch").mkdir(parents=True)
    (tmp_path / "no" / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')")
    (tmp_path / "no" / "matplotlib.py").write_text("raise SystemExit('matplotlib was imported')")
    env["PYTHONPATH"] = f"{tmp_path / 'no'}:{env['PYTHONPATH']}"
    done = cli("plugins", "--json", env=env)
    assert (done.code, done.err) == (0, "")
    assert len(done.json) == 24
    assert {row["status"] for row in done.json} == {"ok"}


def test_two_plugins_with_one_entry_point_are_both_named(
    install_plugin: Callable[..., dict[str, str]], cli: Callable[..., Any]
) -> None:
    env = install_plugin("optim-one", QUIET.format("one"), "same")
    env = install_plugin("optim-two", QUIET.format("two"), "same", env=env)
    done = cli("plugins", "--json", env=env)
    rows = [row for row in done.json if row["name"] == "same"]
    assert [row["distribution"] for row in rows] == ["optim-one", "optim-two"]
    assert [row["status"] for row in rows] == ["clashing", "clashing"]
    assert "also declared by optim-two" in rows[0]["reason"]


def test_list_and_show_name_the_plugin_and_its_version(
    install_plugin: Callable[..., dict[str, str]], cli: Callable[..., Any]
) -> None:
    env = install_plugin("optim-one", QUIET.format("one"), "first")
    listed = [row for row in cli("list", "optimizer", "--json", env=env).json if row["name"] == "quiet-one"]
    shown = cli("show", "optimizer", "quiet-one", "--json", env=env).json
    for row in (*listed, shown):
        assert (row["plugin"], row["distribution"], row["version"]) == ("first", "optim-one", "1.2.3")
    assert json.dumps(listed)
