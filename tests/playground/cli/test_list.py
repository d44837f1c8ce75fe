"""`playground list`: what can be chosen, and what is wrong with what cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import playground

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEYS = {"kind", "name", "summary", "plugin", "distribution", "version", "status"}

BUILT_IN = {
    "data": {"airfoil", "linear-regression"},
    "model": {"linear", "mlp"},
    "optimizer": {
        *("sgd", "momentum", "adagrad", "rmsprop", "adam", "adadelta", "adafactor", "adamax", "adamw", "asgd", "lbfgs"),
        *("muon", "nadam", "radam", "rprop"),
    },
    "backend": {"single", "manual"},
}

BROKEN = "raise RuntimeError('no such luck')"

CHATTY = """
from playground import Optimizer, hookimpl

print("hello, I am being imported")

@hookimpl
def playground_optimizers():
    print("hello, I am being asked")
    return [Optimizer("chatty", "torch.optim:SGD")]
"""

RIVAL = """
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimizers():
    return [Optimizer("adam", "torch.optim:Adam", summary="Another Adam")]
"""


def names(rows: list[dict[str, str]], kind: str) -> set[str]:
    return {row["name"] for row in rows if row["kind"] == kind}


def test_list_as_json_is_an_array_of_objects_with_the_same_seven_keys(cli: Callable[..., Any]) -> None:
    done = cli("list", "--json")
    assert done.code == 0
    assert done.err == ""
    rows = json.loads(done.out)
    assert isinstance(rows, list)
    assert all(row.keys() == KEYS for row in rows)
    assert all(isinstance(value, str) and value for row in rows for value in row.values())


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_built_in_components_of_each_kind_are_listed(call: Callable[..., Any], kind: str) -> None:
    rows = [row for row in call("list", "--json").json if row["distribution"] == "optim-playground"]
    assert names(rows, kind) >= BUILT_IN[kind]
    for row in rows:
        assert row["version"] == playground.__version__
        assert row["status"] == "ok"


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_kind_lists_its_components_alone_and_in_the_same_order(call: Callable[..., Any], kind: str) -> None:
    everything = call("list", "--json").json
    assert call("list", kind, "--json").json == [row for row in everything if row["kind"] == kind]


def test_the_table_has_a_line_for_each_component_that_says_all_of_it(call: Callable[..., Any]) -> None:
    rows, done = call("list", "--json").json, call("list")
    header, *lines = done.out.splitlines()
    assert header.split() == ["kind", "name", "summary", "plugin", "distribution", "version"]
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        assert all(row[key] in line for key in KEYS - {"status"})
    assert "\x1b" not in done.out


def test_a_broken_plugin_is_a_row_with_its_reason_and_everything_else_is_listed(
    cli: Callable[..., Any], install_plugin: Callable[..., dict[str, str]]
) -> None:
    environment = install_plugin("optim-broken", BROKEN, "unlucky")
    before, after = cli("list", "--json"), cli("list", "--json", env=environment)
    assert after.code == 0
    (row,) = [row for row in after.json if row not in before.json]
    assert [row for row in after.json if row in before.json] == before.json
    assert row.keys() == KEYS
    assert (row["status"], row["plugin"], row["name"]) == ("broken", "unlucky", "unlucky")
    assert (row["distribution"], row["version"]) == ("optim-broken", "1.2.3")
    assert "RuntimeError: no such luck" in row["summary"]
    assert "playground uninstall optim-broken" in row["summary"]


def test_the_table_shows_a_broken_plugin_with_its_reason_and_its_mend(
    cli: Callable[..., Any], install_plugin: Callable[..., dict[str, str]]
) -> None:
    done = cli("list", env=install_plugin("optim-broken", BROKEN, "unlucky"))
    assert done.code == 0
    (line,) = [line for line in (done.out + done.err).splitlines() if "unlucky" in line]
    for word in ("optim-broken", "1.2.3", "broken", "RuntimeError: no such luck", "playground uninstall optim-broken"):
        assert word in line
    assert "adagrad" in done.out
    assert "Traceback" not in done.err


def test_a_run_takes_no_notice_of_a_broken_plugin(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
    tmp_path: Path,
) -> None:
    in_process_plugins(install_plugin("optim-broken", BROKEN, "unlucky"))
    done = call("run", "--data", "linear-regression:rows=20", "--json")
    assert done.code == 0
    assert done.json["status"] == "done"
    assert (tmp_path / done.json["run_dir"] / "summary.json").exists()


def test_the_other_commands_take_no_notice_of_a_broken_plugin(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
) -> None:
    in_process_plugins(install_plugin("optim-broken", BROKEN, "unlucky"))
    assert call("--help").code == 0
    assert call("show", "optimizer", "adam").code == 0
    assert call("data", "list").code == 0


def test_an_unknown_component_may_be_that_of_a_broken_plugin_and_the_error_says_so(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
) -> None:
    in_process_plugins(install_plugin("optim-broken", BROKEN, "unlucky"))
    done = call("show", "optimizer", "unluckily-missing")
    assert done.code == 2
    assert "unlucky" in done.err
    assert "playground plugins" in done.err


def test_what_a_plugin_prints_while_it_is_loaded_does_not_spoil_the_json(
    cli: Callable[..., Any], install_plugin: Callable[..., dict[str, str]]
) -> None:
    done = cli("list", "optimizer", "--json", env=install_plugin("optim-chatty", CHATTY))
    assert "chatty" in names(done.json, "optimizer")
    assert "hello, I am being imported" in done.err
    assert "hello, I am being asked" in done.err


def test_two_components_of_one_name_are_both_listed_by_names_that_tell_them_apart(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
) -> None:
    in_process_plugins(install_plugin("optim-rival", RIVAL))
    rows = [row for row in call("list", "optimizer", "--json").json if row["status"] == "clashing"]
    assert {row["name"] for row in rows if row["kind"] == "optimizer"} == {"optim-playground/adam", "optim-rival/adam"}
    assert call("show", "optimizer", "optim-rival/adam", "--json").json["summary"] == "Another Adam"


@pytest.mark.parametrize("arguments", [("--no-plugin", "optimizers", "list"), ("list", "--no-plugin", "optimizers")])
def test_a_plugin_that_is_left_out_is_listed_as_disabled(call: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    rows = call(*arguments, "--json").json
    assert names(rows, "optimizer") == set()
    assert names(rows, "model") >= BUILT_IN["model"]
    assert [(row["name"], row["status"]) for row in rows if row["kind"] == "plugin"] == [("optimizers", "disabled")]


def test_the_environment_can_leave_plugins_out_too(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_DISABLE_PLUGINS", "optimizers, gone-since")
    assert names(call("list", "--json").json, "optimizer") == set()


def test_a_wrong_kind_is_refused_with_the_right_ones(call: Callable[..., Any]) -> None:
    done = call("list", "optimizers")
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert "'optimizers'" in line
    assert "did you mean 'optimizer'?" in line


def test_what_a_plugin_says_on_its_way_out_is_no_result(
    cli: Callable[..., Any], install_plugin: Callable[..., dict[str, str]]
) -> None:
    source = (
        "import atexit\nfrom playground import hookimpl\n\n\n@hookimpl\ndef playground_models():\n    return []\n\n\n"
    )
    done = cli("list", "--json", env=install_plugin("optim-late", f"{source}atexit.register(print, 'bye')\n", "late"))
    assert done.code == 0
    assert {row["kind"] for row in done.json} == set(BUILT_IN)
    assert done.err == "bye\n"
