"""The user's config file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from playground import Registry, RequestError, config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that $PLAYGROUND_CONFIG names; not there yet."""
    path = tmp_path / "mine.toml"
    monkeypatch.setenv("PLAYGROUND_CONFIG", str(path))
    return path


def test_it_lies_in_the_user_s_config_folder_and_need_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLAYGROUND_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.path() == tmp_path / "playground" / "config.toml"
    assert config.disabled() == []
    (tmp_path / "playground").mkdir()
    (tmp_path / "playground" / "config.toml").write_text('[plugins]\ndisable = ["backends"]\n')
    assert config.disabled() == ["backends"]
    (row,) = [plugin for plugin in Registry().plugins if plugin.status == "disabled"]
    assert (row.name, row.seconds) == ("backends", None)
    assert row.reason == f"disabled by {tmp_path}/playground/config.toml"


@pytest.mark.parametrize("name", ["cats", "felines", "big-cats", "big-cats/cats"])
def test_a_plugin_that_it_disables_is_not_imported(
    name: str,
    file: Path,
    tmp_path: Path,
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[..., None],
) -> None:
    marker = tmp_path / "imported"
    source = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    in_process_plugins(install_plugin("big-cats", source, "cats", module="felines"))
    file.write_text(f'[plugins]\ndisable = ["{name}", "one-that-was-uninstalled"]\n')
    done = call("plugins", "--json")
    assert done.code == 0
    assert not marker.exists()
    (row,) = [row for row in done.json if row["name"] == "cats"]
    assert (row["status"], row["reason"], row["import_seconds"]) == ("disabled", f"disabled by {file}", None)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[plugins", "is not TOML: "),
        ("[plugin]\ndisable = []", "has 'plugin'; did you mean 'plugins'?"),
        ("[other]\n", "has 'other'; it may have: plugins"),
        ("[plugins]\ndisabled = []", "has 'disabled' in [plugins]; did you mean 'disable'?"),
        ('[plugins]\ndisable = "lion"', "disable in [plugins] must be a list of names of plugins"),
        ("[plugins]\ndisable = [1]", "disable in [plugins] must be a list of names of plugins"),
        ("plugins = 3", "'plugins' must be a table, [plugins]"),
    ],
)
def test_what_is_not_right_in_it_is_named_in_one_line(
    text: str, what: str, file: Path, call: Callable[..., Any]
) -> None:
    file.write_text(text)
    done = call("list")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert str(file) in done.err
    assert what in done.err
    # What does not need it works.
    assert call("--help").code == 0


def test_a_file_that_is_asked_for_must_be_there(file: Path) -> None:
    with pytest.raises(RequestError, match=r"\$PLAYGROUND_CONFIG names .*mine.toml, which is not there"):
        config.disabled()


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    file.mkdir()
    with pytest.raises(RequestError, match=r"cannot read the config file .*mine\.toml: Is a directory"):
        config.disabled()
