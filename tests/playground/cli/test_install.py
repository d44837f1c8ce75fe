"""Installing and removing plugins, with a real pip in a new environment that needs no index."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]


@pytest.fixture
def environment(new_environment: Callable[..., Any]) -> Any:
    return new_environment("venv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the example, built from a copy, so that nothing is left in its folder."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "examples" / "playground-lion", folder / "lion")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, folder / "lion"]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def distribution(folder: Path, name: str, source: str, **project: str) -> Path:
    """The folder of a distribution with one plugin."""
    place = folder / name
    place.mkdir()
    module = name.replace("-", "_")
    (place / f"{module}.py").write_text(source)
    extra = "".join(f"{key} = {value}\n" for key, value in project.items())
    (place / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "1.0"\n{extra}'
        f'[project.entry-points.playground]\n{module} = "{module}"\n'
        f'[tool.setuptools]\npy-modules = ["{module}"]\n'
    )
    return place


def test_a_wheel_is_installed_listed_run_checked_and_removed(environment: Any, wheel: Path) -> None:
    assert "lion" not in environment.plugins()
    done = environment("install", wheel)
    assert done.returncode == 0, done.stderr
    # What pip says is no result.
    assert done.stdout == "installed playground-lion 0.1.0: optimizer lion\n"
    assert "Successfully installed playground-lion" in done.stderr
    row = environment.plugins()["lion"]
    assert (row["distribution"], row["version"], row["status"]) == ("playground-lion", "0.1.0", "ok")
    run = environment("run", "--optimizer", "lion", "--epochs", 1, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["experiment"]["optimizer"]["name"] == "lion"
    check = environment("check", "optimizer", "lion", "--json")
    assert check.returncode == 0, check.stdout
    (report,) = json.loads(check.stdout)
    assert (report["passed"], report["distribution"]) == (True, "playground-lion")
    again = environment("install", wheel)
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing was installed: all of it is here already" in again.stderr
    gone = environment("uninstall", "lion")
    assert (gone.returncode, gone.stdout) == (0, "removed playground-lion 0.1.0: optimizer lion\n")
    assert "lion" not in environment.plugins()


def test_among_bad_plugins_one_is_installed_and_removed(environment: Any, wheel: Path, bad: dict[str, str]) -> None:
    done = environment("install", wheel, **bad)
    assert (done.returncode, done.stdout) == (0, "installed playground-lion 0.1.0: optimizer lion\n"), done.stderr
    gone = environment("uninstall", "playground-lion", **bad)
    assert (gone.returncode, gone.stdout) == (0, "removed playground-lion 0.1.0: optimizer lion\n"), gone.stderr


def test_a_set_of_plugins_is_carried_to_another_machine(
    environment: Any, new_environment: Callable[..., Any], wheel: Path, tmp_path: Path
) -> None:
    assert environment("install", wheel).returncode == 0
    frozen = environment("plugins", "freeze")
    assert frozen.returncode == 0
    (line,) = frozen.stdout.splitlines()
    assert line == f"playground-lion @ {wheel.as_uri()}"
    assert "another machine may not have" in frozen.stderr
    (tmp_path / "plugins.txt").write_text(frozen.stdout)
    other = new_environment("other")
    done = other("install", "-r", "plugins.txt")
    assert (done.returncode, done.stdout) == (0, "installed playground-lion 0.1.0: optimizer lion\n"), done.stderr
    # From an index a version is all that is needed.
    assert other("uninstall", "playground_lion").returncode == 0
    done = other("install", "playground-lion", PIP_FIND_LINKS=str(wheel.parent))
    assert done.returncode == 0, done.stderr
    assert other("plugins", "freeze").stdout == "playground-lion==0.1.0\n"


BAD = {
    "broken": "raise RuntimeError('no such luck')",
    "deadly": "import os\nos._exit(7)",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_plugin_can_be_installed_and_always_be_removed(name: str, environment: Any, tmp_path: Path) -> None:
    folder = distribution(tmp_path, f"playground-{name}", BAD[name])
    none = "no components that can be used"
    done = environment("install", folder)
    assert (done.returncode, done.stdout) == (0, f"installed playground-{name} 1.0: {none}\n"), done.stderr
    fault = {
        "broken": "RuntimeError: no such luck",
        "deadly": "ends the interpreter, with exit code 7",
    }
    assert fault[name] in done.stderr
    if name != "deadly":
        assert environment.plugins()[f"playground_{name}"]["status"] == "broken"
    assert environment("--help").returncode == 0
    gone = environment("uninstall", f"playground-{name}")
    assert (gone.returncode, gone.stdout) == (0, f"removed playground-{name} 1.0: {none}\n")
    listed = environment("list")
    assert (listed.returncode, listed.stderr) == (0, "")


def test_a_folder_is_installed_as_it_lies(environment: Any, tmp_path: Path) -> None:
    source = (
        "from playground import Optimizer, hookimpl\n\n\n@hookimpl\ndef playground_optimizers():\n    return [{}]\n"
    )
    one = 'Optimizer("one", "torch.optim:SGD")'
    folder = distribution(tmp_path, "playground-mine", source.format(one))
    done = environment("install", "-e", folder)
    assert (done.returncode, done.stdout) == (0, "installed playground-mine 1.0: optimizer one\n"), done.stderr
    (folder / "playground_mine.py").write_text(source.format(one.replace("one", "other")))
    assert environment.plugins()["playground_mine"]["provides"] == ["optimizer other"]
    frozen = environment("plugins", "freeze")
    assert frozen.stdout == f"-e {folder.as_uri()}\n"
    assert frozen.stderr.startswith("playground-mine was installed from a file or folder")
    # With an extra, which pip finds to be met.
    assert environment("uninstall", "playground-mine").returncode == 0
    text = (folder / "pyproject.toml").read_text()
    extra = '[project.optional-dependencies]\ntest = ["click"]\n[tool.setuptools]'
    (folder / "pyproject.toml").write_text(text.replace("[tool.setuptools]", extra))
    done = environment("install", "-e", f"{folder}[test]")
    assert (done.returncode, done.stdout) == (0, "installed playground-mine 1.0: optimizer other\n"), done.stderr


def test_a_folder_that_is_taken_for_a_name_is_pointed_at(environment: Any, tmp_path: Path) -> None:
    distribution(tmp_path, "playground-beside", "")
    done = environment("install", "playground-beside", PIP_NO_INDEX="1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("there is a folder of that name, which is ./playground-beside")


LISTS_ONE = (
    "from playground import Optimizer, hookimpl\n\n\n@hookimpl\ndef playground_optimizers():\n"
    "    return [Optimizer('one', 'torch.optim:SGD')]\n"
)


@pytest.mark.parametrize(
    ("file", "damage"),
    [("RECORD", b""), ("RECORD", None), ("entry_points.txt", b"\xff\xfe"), ("METADATA", b"\xff\xfe\0")],
)
def test_what_pip_cannot_remove_is_removed_by_hand(
    environment: Any, tmp_path: Path, file: str, damage: bytes | None
) -> None:
    """As an installation leaves it that was killed, or a disk that lost something."""
    assert environment("install", distribution(tmp_path, "playground-torn", LISTS_ONE)).returncode == 0
    (folder,) = (tmp_path / "venv").rglob("playground_torn-1.0.dist-info")
    if damage is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(damage)
    done = environment("uninstall", "playground-torn")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith(
        f"where nothing else helps, delete {folder}: without that it is no plugin"
    )
    shutil.rmtree(folder)
    assert not [name for name in environment.plugins() if "torn" in name]


def test_what_pip_left_of_a_removal_that_was_killed_is_no_plugin(environment: Any, tmp_path: Path) -> None:
    assert environment("install", distribution(tmp_path, "playground-torn", LISTS_ONE)).returncode == 0
    (folder,) = (tmp_path / "venv").rglob("playground_torn-1.0.dist-info")
    # So pip calls what it is about to delete.
    folder.rename(folder.with_name("~layground_torn-1.0.dist-info"))
    assert "playground_torn" not in environment.plugins()
    assert environment("plugins", "freeze").stdout == ""
    assert environment("install", tmp_path / "playground-torn").returncode == 0
    assert environment.plugins()["playground_torn"]["status"] == "ok"


def test_a_plugin_that_would_change_what_playground_needs_is_refused(environment: Any, tmp_path: Path) -> None:
    folder = distribution(tmp_path, "playground-old", "", dependencies='["click < 1"]')
    done = environment("install", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "click" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: pip install failed with exit code 1; its messages are above")
    assert "playground_old" not in environment.plugins()


def test_what_playground_needs_only_through_others_is_held_too(environment: Any, tmp_path: Path) -> None:
    # No requirement of playground's own: torch is what needs it.
    folder = distribution(tmp_path, "playground-older", "", dependencies='["networkx < 1"]')
    done = environment("install", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "networkx" in done.stderr
    assert "playground_older" not in environment.plugins()


def test_a_name_that_others_have_is_said_when_it_comes(environment: Any, tmp_path: Path) -> None:
    source = (
        "import os\nfrom playground import Model, hookimpl\n\nos.system('echo a child speaks')\n\n\n"
        "@hookimpl\ndef playground_models():\n    return [Model('linear', 'torch.nn:Linear')]\n"
    )
    done = environment("install", distribution(tmp_path, "playground-same", source))
    assert (done.returncode, done.stdout) == (0, "installed playground-same 1.0: model linear\n"), done.stderr
    assert "model 'linear' is also provided by optim-playground/models" in done.stderr
    assert "--no-plugin playground-same/playground_same" in done.stderr
    assert environment("run", "--epochs", 1).returncode == 0


def test_what_is_no_plugin_is_installed_and_said_to_be_none(environment: Any, tmp_path: Path) -> None:
    folder = distribution(tmp_path, "just-a-library", "")
    text = (folder / "pyproject.toml").read_text().replace("entry-points.playground", "entry-points.other")
    (folder / "pyproject.toml").write_text(text)
    done = environment("install", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "just-a-library 1.0 is installed, but it has no plugin for playground"
    refused = environment("uninstall", "just-a-library")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: 'just-a-library' is no plugin of playground")
    assert environment.run("-m", "pip", "show", "just-a-library").returncode == 0


def test_an_interpreter_without_pip_is_told_what_to_use(new_environment: Callable[..., Any], tmp_path: Path) -> None:
    bare = new_environment("bare", "--without-pip")
    hidden = tmp_path / "hidden"
    (hidden / "sitecustomize").mkdir(parents=True)
    (hidden / "sitecustomize" / "__init__.py").write_text(
        "import importlib.util\nreal = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'pip' else real(name, *rest)\n"
    )
    done = bare("install", "playground-lion", PYTHONPATH=str(hidden))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: this interpreter has no pip; use: uv pip install --python ")
    assert line.endswith("playground-lion, or: python -m ensurepip")
    (tmp_path / "my plugins.txt").write_text("")
    done = bare("install", "-U", "-r", "my plugins.txt", "playground-lion[test]", PYTHONPATH=str(hidden))
    asked = "--upgrade --requirement 'my plugins.txt' 'playground-lion[test]', or: python -m ensurepip"
    assert done.stderr.splitlines()[0].endswith(asked)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("install",), "nothing to install: give a name, a path or a wheel, or -r FILE"),
        (("install", ""), "nothing to install: a name is empty"),
        (("install", "--", "--help"), "'--help' is no name, path or wheel"),
        (("install", "-e", "nowhere[test]"), "there is no file or folder nowhere"),
        (("install", "./nowhere"), "there is no file or folder ./nowhere"),
        (("install", "nowhere-1.0-py3-none-any.whl"), "there is no file or folder nowhere-1.0-py3-none-any.whl"),
        (("install", "-r", "nowhere.txt"), "there is no file or folder nowhere.txt"),
        (("install", "-e", "nowhere"), "there is no file or folder nowhere"),
        (("install", "-U", "optim-playground"), "optim-playground is playground itself"),
        (("install", "Optim_Playground[test]"), "optim-playground is playground itself"),
        (("uninstall", "optim-playground"), "'optim-playground' is playground itself"),
        (("uninstall", "optimizers"), "'optimizers' is playground itself"),
        (("uninstall", "torch"), "'torch' is no plugin of playground; installed plugins: none"),
        (("uninstall", "nonsense"), "'nonsense' is no plugin of playground"),
    ],
)
def test_a_wrong_request_is_refused_in_a_line_and_pip_is_not_asked(
    arguments: tuple[str, ...], what: str, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", never)
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {what}")
    assert len(done.err.splitlines()) == 1


def test_neither_command_imports_a_plugin_itself(environment: Any, tmp_path: Path, wheel: Path) -> None:
    # The plugin ends a process that is not the child which is there to ask it.
    source = "import os, sys\nif 'inventory' not in ' '.join(sys.orig_argv):\n    os.kill(os.getpid(), 9)\n"
    folder = distribution(tmp_path, "playground-shy", source)
    assert environment("install", folder).returncode == 0
    assert environment("install", wheel).returncode == 0
    assert environment("plugins", "freeze").returncode == 0
    assert environment("list").returncode == -9
    assert environment("uninstall", "playground-shy").returncode == 0
    assert environment("list").returncode == 0
