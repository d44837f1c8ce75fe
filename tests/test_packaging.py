"""Packaging: all that is in the tree gets into the distribution, and nothing else."""

from __future__ import annotations

import ast
import configparser
import email
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest

from playground.components import Component, Data
from playground.registry import Registry

ROOT = Path(__file__).parents[1]
FOLDERS = {"playground": "playground", "playground_plugins": "plugins"}
AIRFOIL = "data/files/airfoil_self_noise.dat"
AIRFOIL_SHA1 = "76e5be1548fd8222e5074cf0faae75edff8cf93f"


@pytest.fixture(scope="module")
def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def sources(package: str) -> dict[str, Path]:
    """The source files of a package's tree by module name."""
    folder = ROOT / FOLDERS[package]
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def normal(name: str) -> str:
    """A distribution's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: str) -> set[str]:
    return {normal(re.split(r"[\s<>=!~;\[]", line)[0]) for line in lines(requirements)}


def pins() -> dict[str, str]:
    """The versions in constraints.txt."""
    found = {}
    for line in lines((ROOT / "constraints.txt").read_text(encoding="utf-8")):
        if not line.startswith("#"):
            name, equals, version = line.partition("==")
            assert equals, f"constraints.txt: {line!r} is not of the form name==version"
            found[normal(name)] = version.partition(";")[0].strip()
    return found


def without(tool: str) -> NoReturn:
    """What a test needs is not here: on a developer's machine it is skipped, but the project's own check has it."""
    if os.environ.get("CI"):
        pytest.fail(f"{tool} is not here, and continuous integration must have it")
    pytest.skip(f"{tool} is not here")


# What is declared


def test_every_package_of_the_tree_is_declared_and_every_declared_one_is_in_the_tree(
    setup_cfg: configparser.ConfigParser,
) -> None:
    found = {module for package in FOLDERS for module, path in sources(package).items() if path.name == "__init__.py"}
    assert set(lines(setup_cfg["options"]["packages"])) == found


def test_every_folder_with_sources_is_a_package() -> None:
    for package in FOLDERS:
        for path in sources(package).values():
            assert (path.parent / "__init__.py").is_file(), path.parent


def test_metadata_are_in_setup_cfg_and_pyproject_has_only_the_build_and_the_tools() -> None:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(tables) == {"build-system", "tool"}
    assert not (ROOT / "setup.py").exists()


def test_the_distribution_and_the_command_have_the_names_that_they_should(setup_cfg: configparser.ConfigParser) -> None:
    assert setup_cfg["metadata"]["name"] == "optim-playground"
    assert setup_cfg["metadata"]["license"] == "MIT"
    assert setup_cfg["options"]["python_requires"] == ">=3.11"
    points = setup_cfg["options.entry_points"]
    assert lines(points["console_scripts"]) == ["playground = playground.cli:main"]
    assert set(lines(points["playground"])) == {
        f"{name} = playground_plugins.{name}" for name in ("data", "models", "optimizers", "backends")
    }


def test_the_version_is_said_once_and_the_same_everywhere(setup_cfg: configparser.ConfigParser) -> None:
    namespace: dict[str, object] = {}
    for node in ast.parse((ROOT / "playground" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            namespace["version"] = ast.literal_eval(node.value)
    declared = setup_cfg["metadata"]["version"]
    assert declared in (namespace["version"], "attr: playground.__version__")
    assert importlib.metadata.version("optim-playground") == namespace["version"]


def test_every_package_that_the_code_imports_is_a_declared_dependency(setup_cfg: configparser.ConfigParser) -> None:
    imported: set[str] = set()
    for package in FOLDERS:
        for path in sources(package).values():
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    imported.add(node.module.partition(".")[0])
    # Only by the classes for the tests of plugins, which are of no use without it.
    imported.discard("pytest")
    strangers = {normal(name) for name in imported - set(sys.stdlib_module_names) - set(FOLDERS)}
    declared = named(setup_cfg["options"]["install_requires"])
    assert strangers - declared == set(), "imported but not declared"
    assert declared - strangers == set(), "declared but not imported"


def test_every_dependency_is_pinned_in_the_constraints(setup_cfg: configparser.ConfigParser) -> None:
    pinned = pins()
    assert pinned["torch"] == "2.13.0"
    wanted = named(setup_cfg["options"]["install_requires"])
    for extra in setup_cfg["options.extras_require"].values():
        wanted |= named(extra)
    assert {name for name in wanted if name not in pinned} == set()


# Files


def test_every_source_file_of_the_plugins_is_reached_from_an_entry_point() -> None:
    points = importlib.metadata.distribution("optim-playground").entry_points.select(group="playground")
    registry = Registry(entry_points=points)
    assert {plugin.status for plugin in registry.plugins} == {"ok"}
    modules = sources("playground_plugins")
    waiting = {point.module for point in points} | {module_of(one.component) for one in registry.components}
    reached: set[str] = set()
    while waiting:
        module = waiting.pop()
        while module:
            if module in modules and module not in reached:
                reached.add(module)
                waiting |= imported_by(module, modules[module])
            module = module.rpartition(".")[0]
    assert set(modules) - reached == set()


def module_of(component: Component) -> str:
    return component.source.partition(":")[0]


def imported_by(module: str, path: Path) -> set[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            found |= {whole, *(f"{whole}.{alias.name}" for alias in node.names)}
    return found


def test_the_data_that_come_with_the_project_are_here_with_a_note_of_their_source() -> None:
    points = importlib.metadata.distribution("optim-playground").entry_points.select(group="playground")
    (airfoil,) = (one for one in Registry(entry_points=points).of_kind("data") if one.name == "airfoil")
    assert isinstance(airfoil.component, Data)
    path = airfoil.component.locate()
    assert path is not None
    assert hashlib.sha1(path.read_bytes()).hexdigest() == AIRFOIL_SHA1
    note = path.with_suffix(".md").read_text(encoding="utf-8")
    for word in ("Brooks", "Pope", "Marcolini", "10.24432/C5VW2C", "CC BY 4.0"):
        assert word in note
        assert word in airfoil.component.origin


def test_git_leaves_the_line_ends_of_the_data_alone() -> None:
    assert (ROOT / "plugins" / AIRFOIL).read_bytes().count(b"\r\n") == 1503
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        without("a git checkout")
    path = f"plugins/{AIRFOIL}"
    asked = subprocess.run(
        ["git", "check-attr", "text", "eol", "--", path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        without("a git checkout that git trusts")
    assert asked.stdout.splitlines() == [f"{path}: text: unset", f"{path}: eol: unspecified"]
    kept = subprocess.run(["git", "show", f":{path}"], cwd=ROOT, capture_output=True, check=True).stdout
    assert hashlib.sha1(kept).hexdigest() == AIRFOIL_SHA1


def test_the_folders_of_the_tests_do_not_hide_the_package() -> None:
    # `tests/playground` has the name of the package: where pytest puts `tests` on the path and the root is not there,
    # as with a bare `pytest`, it must still be the package that is imported.
    pytest_ = [sys.executable, "-P", "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "--collect-only"]
    collected = subprocess.run(
        [*pytest_, ROOT / "tests" / "playground" / "test_start_up.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network from a copy of the tree, as pip would do it."""
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        without("setuptools")
    if int(version.partition(".")[0]) < 77:
        without("setuptools 77 or newer")
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("playground", "plugins", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree / name)
    built = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])",
            out,
        ],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_packages_byte_for_byte_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}": path.read_bytes()
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(held) == sorted(wanted)
    assert [name for name in wanted if held[name] != wanted[name]] == []
    assert "playground/py.typed" in held
    assert hashlib.sha1(held[f"playground_plugins/{AIRFOIL}"]).hexdigest() == AIRFOIL_SHA1
    assert b"Brooks" in held[f"playground_plugins/{AIRFOIL}".replace(".dat", ".md")]


def test_the_wheel_says_what_setup_cfg_says(wheel: Path, setup_cfg: configparser.ConfigParser) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        points = configparser.ConfigParser(delimiters=("=",))
        points.read_string(archive.read(f"{info}/entry_points.txt").decode())
        licences = {name.partition("/licenses/")[2] for name in archive.namelist() if "/licenses/" in name}
    assert metadata["Name"] == "optim-playground"
    assert (metadata["License-Expression"] or metadata["License"]) == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == set(setup_cfg["options.extras_require"])
    assert dict(points["console_scripts"]) == {"playground": "playground.cli:main"}
    assert dict(points["playground"]) == {
        name: f"playground_plugins.{name}" for name in ("data", "models", "optimizers", "backends")
    }
    assert licences == {"LICENSE", "plugins/data/files/airfoil_self_noise.md"}


def test_the_wheel_finds_its_own_plugins_and_its_own_data(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)

    def playground(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "playground", *arguments],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(site), "PLAYGROUND_DISABLE_PLUGINS": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    path = Path(playground("data", "path", "airfoil").strip())
    assert path == site / "playground_plugins" / AIRFOIL
    assert hashlib.sha1(path.read_bytes()).hexdigest() == AIRFOIL_SHA1
    ours = [row for row in json.loads(playground("list", "--json")) if row["distribution"] == "optim-playground"]
    assert {row["kind"] for row in ours} == {"data", "model", "optimizer", "backend"}
    assert {row["status"] for row in ours} == {"ok"}
