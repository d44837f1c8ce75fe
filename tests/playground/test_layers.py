"""Who may import whom, read off the sources: nothing imports upward, and only the lower floors import torch."""

from __future__ import annotations

import ast
import graphlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import playground

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

# From the bottom to the top. Within a floor modules may import each other, but not in a circle.
FLOORS: list[set[str]] = [
    {"errors", "expressions", "parameters", "components", "hookspecs", "discovery", "loader", "config", "streams"},
    {"registry"},
    {"experiment", "distributions", "authoring"},
    {"engine"},
    {"runs", "figures", "conformance"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}

# Imports for type checkers alone that go upward, each with what justifies it.
UPWARD_FOR_TYPES = {
    # A hook's specification has to say what the hook is given, and that is a run. pluggy reads only the arguments'
    # names, so the module needs nothing of it when it runs.
    ("playground.hookspecs", "playground.runs.run"),
}

HEAVY = {"torch", "numpy", "matplotlib"}


@dataclass(frozen=True)
class Import:
    """An import in a source file: who imports what, as `module` or `module.name`, and whether for types alone."""

    importer: str
    module: str
    name: str
    for_types: bool

    @property
    def target(self) -> str:
        """The module that is imported: `from package import module` imports the module."""
        whole = f"{self.module}.{self.name}"
        return whole if whole in MODULES else self.module


def modules(folder: str, package: str) -> dict[str, Path]:
    """The modules below a folder, by their dotted names."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


CORE = modules("playground", "playground")
PLUGINS = modules("plugins", "playground_plugins")
MODULES = CORE | PLUGINS


def imports(importer: str) -> Iterator[Import]:
    """Every import of a module, those inside functions too."""
    path = MODULES[importer]
    package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, "", id(node) in for_types)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(importer, module, alias.name, id(node) in for_types)


def of_project(importer: str) -> list[Import]:
    return [one for one in imports(importer) if one.module.partition(".")[0] in ("playground", "playground_plugins")]


def floor(module: str) -> int:
    """The floor of a module of the core; the public API stands above all."""
    _, _, rest = module.partition(".")
    return FLOOR_OF[rest.partition(".")[0]] if rest else len(FLOORS)


def test_every_module_of_the_core_has_its_floor() -> None:
    homeless = {module for module in CORE if module != "playground" and module.split(".")[1] not in FLOOR_OF}
    assert homeless == set()


@pytest.mark.parametrize("module", [module for module in CORE if module != "playground"])
def test_no_module_of_the_core_imports_upward(module: str) -> None:
    wrong = []
    for one in of_project(module):
        # The version is the one thing that the package itself holds; the rest of it is a door for users.
        if (one.module, one.name) == ("playground", "__version__"):
            continue
        if one.for_types and (module, one.target) in UPWARD_FOR_TYPES:
            continue
        if floor(one.target) > floor(module):
            wrong.append(one)
    assert wrong == []


def test_every_exception_to_the_rule_is_still_needed() -> None:
    upward = {(module, one.target) for module in CORE for one in of_project(module) if one.for_types}
    assert upward >= UPWARD_FOR_TYPES


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        module: {one.target for one in of_project(module) if not one.for_types and one.target != "playground"}
        for module in MODULES
        if module != "playground"
    }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)


def test_the_core_does_not_know_the_plugins_that_come_with_it() -> None:
    for module, path in CORE.items():
        assert [one for one in imports(module) if one.module.startswith("playground_plugins")] == []
        # Nor by a lazy reference in a string.
        assert "playground_plugins" not in path.read_text(encoding="utf-8"), module


@pytest.mark.parametrize("module", PLUGINS)
def test_a_plugin_of_the_project_imports_only_what_a_stranger_s_could(module: str) -> None:
    for one in of_project(module):
        if one.module.startswith("playground."):
            pytest.fail(f"{module} imports {one.module}; a plugin imports from playground alone")
        if one.module == "playground":
            assert one.name in playground.__all__, f"{module} imports {one.name or 'the module itself'}"


def test_only_the_engine_and_what_records_runs_import_torch_and_only_figures_matplotlib() -> None:
    allowed = {"torch": {"engine", "runs", "conformance"}, "matplotlib": {"figures"}, "numpy": set()}
    for module in CORE:
        part = module.split(".")[1] if "." in module else ""
        for one in imports(module):
            package = one.module.partition(".")[0]
            if package in HEAVY and not one.for_types:
                assert part in allowed[package], f"{module} imports {one.module}"


@pytest.mark.parametrize("module", [module for module, path in PLUGINS.items() if path.name == "__init__.py"])
def test_a_module_that_describes_components_imports_only_the_standard_library_and_the_public_api(module: str) -> None:
    assert {one.module.partition(".")[0] for one in imports(module)} & HEAVY == set()


def test_figures_are_drawn_without_pyplot_so_that_no_display_is_needed() -> None:
    for module in MODULES:
        for one in imports(module):
            assert "pyplot" not in (*one.module.split("."), one.name), module


def test_the_public_api_tells_type_checkers_what_it_gives_at_run_time() -> None:
    told = [one for one in imports("playground") if one.for_types and one.module.startswith("playground.")]
    assert sorted([one.name for one in told] + ["__version__"]) == sorted(playground.__all__)
    for one in told:
        home = __import__(one.module, fromlist=[one.name])
        assert getattr(playground, one.name) is getattr(home, one.name), one


def test_importing_the_public_api_imports_nothing_else_of_the_project() -> None:
    assert [one for one in of_project("playground") if not one.for_types] == []
