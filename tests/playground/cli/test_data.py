"""`playground data`: the data sets, and where they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

NASA = "76e5be1548fd8222e5074cf0faae75edff8cf93f"
"""SHA-1 of the file as NASA and the UCI Machine Learning Repository publish it."""

THIRD_PARTY = """
from pathlib import Path
from playground import Data, hookimpl

def load():
    pass

def fails():
    raise OSError("the disk is gone")

def chats():
    print("let me see")
    return Path(__file__)

@hookimpl
def playground_data():
    return [
        Data("fails", load, path=fails),
        Data("absent", load, path=lambda: None),
        Data("moved", load, path=Path("/no/such/place")),
        Data("text", load, path=lambda: "/no/such/place"),
        Data("chatty", load, path=chats),
    ]
"""


@pytest.fixture
def third_party(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> None:
    in_process_plugins(install_plugin("optim-third", THIRD_PARTY, "third"))


def test_data_list_as_json_says_where_each_data_set_lies_and_comes_from(call: Callable[..., Any]) -> None:
    rows = {row["name"]: row for row in call("data", "list", "--json").json}
    assert rows.keys() >= {"airfoil", "linear-regression"}
    assert all(row.keys() == {"name", "summary", "state", "path", "origin"} for row in rows.values())
    airfoil, made = rows["airfoil"], rows["linear-regression"]
    assert airfoil["state"] == "here"
    assert Path(airfoil["path"]).is_file()
    assert "10.24432/C5VW2C" in airfoil["origin"]
    assert "CC BY 4.0" in airfoil["origin"]
    assert (made["state"], made["path"], made["origin"]) == ("made, not read", None, "synthetic")


def test_data_list_is_a_table_with_a_line_for_each_data_set(call: Callable[..., Any]) -> None:
    rows, done = call("data", "list", "--json").json, call("data", "list")
    header, *lines = done.out.splitlines()
    assert header.split() == ["name", "state", "path", "origin"]
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row["name"])
        assert all((row[key] or "") in line for key in ("state", "path", "origin"))


def test_data_path_prints_the_path_of_nasas_file_and_nothing_else(cli: Callable[..., Any]) -> None:
    done = cli("data", "path", "airfoil")
    assert done.code == 0
    assert done.err == ""
    path = Path(done.out.removesuffix("\n"))
    assert path.is_absolute()
    assert hashlib.sha1(path.read_bytes()).hexdigest() == NASA


def test_data_that_is_made_has_no_path_and_the_error_says_why(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("data", "path", "linear-regression")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: data 'linear-regression' has no path: made, not read\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("path", "airfol"), ("unknown data 'airfol'", "did you mean 'airfoil'?")),
        (("path",), ("NAME",)),
        (("path", "airfoil", "extra"), ("extra",)),
        (("pth", "airfoil"), ("'pth'", "'path'")),
        (("list", "--jsn"), ("'--jsn'", "'--json'")),
    ],
)
def test_a_wrong_request_is_refused_with_a_hint(
    call: Callable[..., Any], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = call("data", *arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in words)


@pytest.mark.usefixtures("third_party")
def test_data_whose_plugin_cannot_say_where_it_lies_is_listed_with_the_reason(call: Callable[..., Any]) -> None:
    done = call("data", "list", "--json")
    assert done.code == 0, done.err
    rows = {row["name"]: row for row in done.json}
    assert "OSError: the disk is gone" in rows["fails"]["state"]
    assert (rows["absent"]["state"], rows["absent"]["path"]) == ("not here", None)
    assert rows["moved"]["state"] == "not here"
    assert rows["airfoil"]["state"] == "here"
    # Its plugin gives a str where a Path is due; that must not hide the others.
    assert rows["text"]["path"] in (None, "/no/such/place")
    assert rows["chatty"]["state"] == "here"


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("name", "reason"),
    [("fails", "the disk is gone"), ("absent", "not here"), ("moved", "not here"), ("text", "text")],
)
def test_data_that_is_not_here_has_no_path_and_the_error_says_why(
    call: Callable[..., Any], name: str, reason: str
) -> None:
    done = call("data", "path", name)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert reason in line
    assert "fault of playground" not in line


@pytest.mark.usefixtures("third_party")
def test_what_a_plugin_prints_when_asked_for_a_path_is_not_taken_for_the_path(call: Callable[..., Any]) -> None:
    done = call("data", "path", "chatty")
    (line,) = done.out.splitlines()
    assert Path(line).is_file()
