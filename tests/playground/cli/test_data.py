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
        (("fetch", "fashion-mnits"), ("unknown data 'fashion-mnits'", "did you mean 'fashion-mnist'?")),
        (("fetch",), ("NAME",)),
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


# Bringing data here

FETCHED = """
from pathlib import Path
from playground import Data, RequestError, hookimpl

def load():
    pass

def nowhere():
    return None

def here():
    file = Path("brought.dat")
    return file if file.exists() else None

def brings():
    print("on its way")
    Path("brought.dat").write_text("1 2 3")
    return Path("brought.dat").resolve()

def divides():
    return 1 / 0

def quits():
    raise SystemExit(0)

def refuses():
    raise RequestError("the server sleeps; ask it tomorrow")

def is_stopped():
    raise KeyboardInterrupt

@hookimpl
def playground_data():
    fetches = {
        "divides": divides,
        "quits": quits,
        "refuses": refuses,
        "is-stopped": is_stopped,
        "none": nowhere,
        "text": lambda: "somewhere",
        "liar": lambda: Path("/no/such/place"),
        "lost": "no_such_module:fetch",
    }
    return [
        Data("brings", load, path=here, fetch=brings),
        Data("moved", load, path=Path("/no/such/place")),
        *(Data(name, load, path=nowhere, fetch=fetch) for name, fetch in fetches.items()),
    ]
"""


@pytest.fixture
def fetched(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> None:
    in_process_plugins(install_plugin("optim-fetched", FETCHED, "fetched"))


@pytest.mark.usefixtures("fetched")
def test_data_is_brought_here_and_its_path_is_all_that_is_printed(call: Callable[..., Any], tmp_path: Path) -> None:
    before = call("data", "path", "brings")
    assert before.code == 2
    assert before.err.endswith("has no path: not here; 'playground data fetch brings' brings it here\n")
    done = call("data", "fetch", "brings")
    assert (done.code, done.out, done.err) == (0, f"{tmp_path / 'brought.dat'}\n", "on its way\n")
    # Where the data are here, it is the plugin that knows whether they are whole.
    assert call("data", "path", "brings").out == "brought.dat\n"
    assert call("data", "fetch", "brings").err == "on its way\n"


def test_data_that_comes_with_its_plugin_is_here(call: Callable[..., Any]) -> None:
    done = call("data", "fetch", "airfoil")
    assert (done.code, done.err) == (0, "")
    assert Path(done.out.strip()).is_file()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("linear-regression", "made, not read"),
        ("moved", "not here"),
    ],
)
@pytest.mark.usefixtures("fetched")
def test_data_that_has_nothing_to_fetch_says_why(call: Callable[..., Any], name: str, reason: str) -> None:
    done = call("data", "fetch", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: data '{name}' has nothing to fetch: {reason}")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("divides", "ZeroDivisionError: division by zero"),
        ("quits", "SystemExit: 0"),
        ("none", "TypeError: its fetch returns a NoneType, not a pathlib.Path"),
        ("text", "TypeError: its fetch returns a str, not a pathlib.Path"),
        ("liar", "FileNotFoundError: its fetch returns /no/such/place, and nothing is there"),
        ("lost", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
@pytest.mark.usefixtures("fetched")
def test_a_fetch_that_ends_oddly_names_its_component_and_its_plugin(
    call: Callable[..., Any], name: str, cause: str
) -> None:
    done = call("data", "fetch", name)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: data '{name}' (plugin optim-fetched/fetched 1.2.3) cannot be fetched: {cause}\n"


@pytest.mark.usefixtures("fetched")
def test_a_fetch_that_refuses_is_quoted_and_one_that_is_interrupted_exits_with_130(call: Callable[..., Any]) -> None:
    refused = call("data", "fetch", "refuses")
    assert (refused.code, refused.out, refused.err) == (2, "", "error: the server sleeps; ask it tomorrow\n")
    stopped = call("data", "fetch", "is-stopped")
    assert (stopped.code, stopped.out, stopped.err.strip()) == (130, "", "error: interrupted")


@pytest.mark.parametrize("fetch", ["'here.py'", "5", "'module:'"])
def test_a_plugin_whose_fetch_can_be_neither_called_nor_imported_is_listed_as_broken(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
    fetch: str,
) -> None:
    source = f"""
from playground import Data, hookimpl

@hookimpl
def playground_data():
    return [Data("wrong", "json:loads", fetch={fetch})]
"""
    in_process_plugins(install_plugin("optim-wrong", source, "wrong"))
    (row,) = (row for row in call("list", "--json").json if row["name"] == "wrong")
    assert (row["kind"], row["status"]) == ("plugin", "broken")
    assert "data 'wrong': fetch" in row["summary"]
