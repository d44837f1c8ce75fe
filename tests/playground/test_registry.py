"""The registry: what the installed plugins provide, what ails those that cannot be used, and look-up by name."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import playground
from playground.components import KINDS
from playground.errors import ComponentError, RequestError
from playground.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from conftest import Finished

    Cli = Callable[..., Finished]
    Install = Callable[..., dict[str, str]]
    Use = Callable[[Mapping[str, str]], None]
    Provide = Callable[..., list[EntryPoint]]

HEAD = "from playground import Backend, Data, Model, Optimizer, hookimpl\n\n\n"


def optimizers(listed: str) -> str:
    """The source of a plugin that lists these optimizers."""
    return f"{HEAD}@hookimpl\ndef playground_optimizers():\n    return [{listed}]\n"


LION = optimizers("Optimizer('lion', 'torch.optim:SGD')")
TIGER = optimizers("Optimizer('tiger', 'torch.optim:SGD')")

# How a plugin can be broken: its source, the reason that is shown, and whether it came to be imported.
BREAKAGES = {
    "an import of what is not there": (
        "import no_such_module_at_all",
        "import failed: ModuleNotFoundError: No module named 'no_such_module_at_all'",
        False,
    ),
    "a syntax error": ("def def", "import failed: SyntaxError: ", False),
    "an exit while it is imported": ("raise SystemExit(3)", "import failed: SystemExit: 3", False),
    "a component that says it is of another kind": (
        f"{HEAD}class Zebra(Optimizer):\n    kind = 'zebra'\n\n\n"
        "@hookimpl\ndef playground_optimizers():\n    return [Zebra('zebra', 'a:b')]\n",
        "playground_optimizers listed a Zebra, not a Optimizer",
        True,
    ),
    "an attempt on the kinds that there are": (
        "import playground.components\nplayground.components.KINDS.clear()",
        "import failed: AttributeError: 'mappingproxy' object has no attribute 'clear'",
        False,
    ),
    "a wrapper of a hook": (
        f"{LION}\n\n@hookimpl(wrapper=True)\ndef playground_run_start(run):\n    return (yield)\n",
        "playground_run_start is a wrapper, and there is nothing for it to wrap",
        True,
    ),
    "an error of several lines": ("raise RuntimeError('one\\n  two')", "import failed: RuntimeError: one two", False),
    "a hook that raises": (
        f"{HEAD}@hookimpl\ndef playground_optimizers():\n    raise RuntimeError('no optimizers today')\n",
        "playground_optimizers raised RuntimeError: no optimizers today",
        True,
    ),
    "a hook that exits": (
        f"{HEAD}@hookimpl\ndef playground_data():\n    raise SystemExit('done')\n",
        "playground_data raised SystemExit: done",
        True,
    ),
    "a generator that raises midway": (
        f"{HEAD}@hookimpl\ndef playground_optimizers():\n"
        "    yield Optimizer('lion', 'a:b')\n    raise KeyError('tiger')\n",
        "playground_optimizers raised KeyError: 'tiger'",
        True,
    ),
    "an error that cannot be printed": (
        f"{HEAD}class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError('mute')\n\n\n"
        "@hookimpl\ndef playground_optimizers():\n    raise Mute\n",
        "",
        True,
    ),
    "a component that is refused": (
        optimizers("Optimizer('sea lion', 'a:b')"),
        "playground_optimizers raised ValueError: a optimizer named 'sea lion'",
        True,
    ),
    "a word instead of a list": (
        f"{HEAD}@hookimpl\ndef playground_optimizers():\n    return 'lion'\n",
        "playground_optimizers returned a str, not a list of components",
        True,
    ),
    "a number instead of a list": (
        f"{HEAD}@hookimpl\ndef playground_models():\n    return 5\n",
        "playground_models returned a int, not a list of components",
        True,
    ),
    "a component instead of a list": (
        f"{HEAD}@hookimpl\ndef playground_optimizers():\n    return Optimizer('lion', 'a:b')\n",
        "playground_optimizers returned a Optimizer, not a list of components",
        True,
    ),
    "nothing instead of a list": (
        f"{HEAD}@hookimpl\ndef playground_optimizers():\n    [Optimizer('lion', 'a:b')]\n",
        "playground_optimizers returned ",
        True,
    ),
    "names instead of components": (
        optimizers("'lion'"),
        "playground_optimizers listed a str, not a Optimizer",
        True,
    ),
    "classes instead of components": (
        optimizers("Optimizer"),
        "playground_optimizers listed a type, not a Optimizer",
        True,
    ),
    "components of another kind": (
        optimizers("Optimizer('lion', 'a:b'), Model('lion', 'a:b')"),
        "playground_optimizers listed a Model, not a Optimizer",
        True,
    ),
    "two components of one name": (
        optimizers("Optimizer('lion', 'a:b'), Optimizer('lion', 'c:d')"),
        "playground_optimizers listed two optimizer components named 'lion'",
        True,
    ),
    "a misspelt hook": (
        f"{HEAD}@hookimpl\ndef playground_optimisers():\n    return []\n",
        "does not fit the hooks: there is no hook 'playground_optimisers'; did you mean 'playground_optimizers'?",
        True,
    ),
    "a hook of another name": (
        f"{HEAD}@hookimpl\ndef lions():\n    return []\n",
        "does not fit the hooks: unknown hook 'lions' in plugin ",
        True,
    ),
    "no marked function": (
        f"{HEAD}def playground_optimizers():\n    return []\n",
        "implements no hook: its functions must be marked with @playground.hookimpl",
        True,
    ),
    "an empty module": ("", "implements no hook: its functions must be marked with @playground.hookimpl", True),
}


@pytest.fixture
def provide(install_plugin: Install, in_process_plugins: Use) -> Provide:
    """Distributions, each with one plugin, that this process can import; gives their entry points.

    sources: the plugins' sources by `distribution` or `distribution/entry point`. modules: further sources, by the name
    of the module, that lie beside the last plugin.
    """

    def provide_(sources: Mapping[str, str], modules: Mapping[str, str] | None = None) -> list[EntryPoint]:
        env: dict[str, str] | None = None
        for name, source in sources.items():
            distribution, _, entry_point = name.partition("/")
            module = f"{distribution}_{entry_point or 'plugin'}".replace("-", "_")
            env = install_plugin(distribution, source, entry_point or None, module=module, env=env)
        assert env is not None
        in_process_plugins(env)
        sites = env["PYTHONPATH"].split(os.pathsep)[: len(sources)]
        for name, source in (modules or {}).items():
            (Path(sites[0]) / f"{name}.py").write_text(source, encoding="utf-8")
        found = [one.entry_points for one in importlib.metadata.distributions(path=sites)]
        return [point for points in found for point in points]

    return provide_


@pytest.fixture
def two_in_one(tmp_path_factory: pytest.TempPathFactory, in_process_plugins: Use) -> Callable[..., list[EntryPoint]]:
    """One distribution, `pair`, with two entry points; gives them."""

    def make(points: Mapping[str, str], sources: Mapping[str, str]) -> list[EntryPoint]:
        site = tmp_path_factory.mktemp("site")
        for module, source in sources.items():
            (site / f"{module}.py").write_text(source, encoding="utf-8")
        info = site / "pair-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pair\nVersion: 2.0\n", encoding="utf-8")
        lines = [f"{name} = {module}\n" for name, module in points.items()]
        (info / "entry_points.txt").write_text("[playground]\n" + "".join(lines), encoding="utf-8")
        in_process_plugins({"PYTHONPATH": str(site)})
        return list(importlib.metadata.Distribution.at(info).entry_points)

    return make


def builtin_points() -> list[EntryPoint]:
    return list(importlib.metadata.distribution("optim-playground").entry_points.select(group="playground"))


def health(registry: Registry) -> dict[str, str]:
    return {plugin.qualified: plugin.status for plugin in registry.plugins}


def names(registry: Registry, kind: str) -> list[str]:
    return [one.name for one in registry.of_kind(kind)]


def plugin_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of `list --json` that stand for plugins, by plugin."""
    return {row["plugin"]: row for row in rows if row["kind"] == "plugin"}


# Plugins that are well


def test_the_plugins_that_come_with_the_project_are_well() -> None:
    registry = Registry(entry_points=builtin_points())
    assert health(registry) == {
        f"optim-playground/{name}": "ok" for name in ("backends", "data", "models", "optimizers")
    }
    assert [(plugin.reason, plugin.mend) for plugin in registry.plugins] == [("", "")] * 4
    assert all(one.name == one.component.name for one in registry.components)
    assert {plugin.version for plugin in registry.plugins} == {playground.__version__}


def test_components_are_in_the_order_of_kinds_and_names() -> None:
    registry = Registry(entry_points=reversed(builtin_points()))
    order = [(list(KINDS).index(one.kind), one.name) for one in registry.components]
    assert order == sorted(order)


def test_a_plugin_of_a_stranger_is_found_and_its_components_know_where_they_are_from(provide: Provide) -> None:
    registry = Registry(entry_points=provide({"stranger/cats": LION}))
    lion = registry.get("optimizer", "lion")
    assert lion.provenance == {"name": "lion", "plugin": "cats", "distribution": "stranger", "version": "1.2.3"}
    assert str(lion) == "optimizer 'lion' (plugin stranger/cats 1.2.3)"


def test_a_plugin_of_a_stranger_stands_in_the_list_beside_those_of_the_project(
    install_plugin: Install, cli: Cli
) -> None:
    listed = cli("list", "--json", env=install_plugin("stranger", LION, "cats"))
    assert (listed.code, listed.err) == (0, "")
    (row,) = (row for row in listed.json if row["distribution"] == "stranger")
    assert row == {
        "kind": "optimizer",
        "name": "lion",
        "summary": "",
        "plugin": "cats",
        "distribution": "stranger",
        "version": "1.2.3",
        "status": "ok",
    }
    assert {"airfoil", "linear", "sgd", "single"} <= {row["name"] for row in listed.json}


def test_an_object_can_be_a_plugin(provide: Provide) -> None:
    source = (
        f"{HEAD}class Cats:\n    @hookimpl\n    def playground_optimizers(self):\n"
        "        return (Optimizer('lion', 'a:b'),)\n\n\ncats = Cats()\n"
    )
    (point,) = provide({"stranger": source})
    attribute = type(point)(point.name, f"{point.value}:cats", point.group)
    assert names(Registry(entry_points=[attribute]), "optimizer") == ["lion"]


def test_a_hook_may_yield_its_components(provide: Provide) -> None:
    source = f"{HEAD}@hookimpl\ndef playground_optimizers():\n    yield Optimizer('lion', 'a:b')\n"
    assert names(Registry(entry_points=provide({"stranger": source})), "optimizer") == ["lion"]


@pytest.mark.parametrize("spelling", ["Optim_Playground", "optim.playground", "optim-playground/optimizers"])
def test_a_component_is_meant_by_any_spelling_of_its_distribution(spelling: str) -> None:
    assert Registry().get("optimizer", f"{spelling}/adam").component.name == "adam"


def test_a_misspelling_is_no_matter_of_a_disabled_plugin_of_the_same_distribution(call: Cli) -> None:
    done = call("show", "optimizer", "optim-playground/adma", "--no-plugin", "data")
    assert done.code == 2
    assert done.err.startswith("error: unknown optimizer 'optim-playground/adma'; did you mean 'adam'?")


@pytest.mark.parametrize("name", ["Evil_Cats", "evil-cats", "evil.cats", "EVIL-CATS"])
def test_a_distribution_is_meant_by_any_spelling_of_its_name(provide: Provide, name: str) -> None:
    registry = Registry(entry_points=provide({"Evil_Cats/cats": LION}), disable=[name])
    assert set(health(registry).values()) == {"disabled"}


def test_two_registries_know_nothing_of_each_other(provide: Provide) -> None:
    points = provide({"cats": LION, "dogs": TIGER.replace("tiger", "wolf"), "lame": BREAKAGES["a misspelt hook"][0]})
    whole, part = Registry(entry_points=points), Registry(entry_points=points, disable=["dogs", "lame"])
    assert names(whole, "optimizer") == ["lion", "wolf"]
    assert names(part, "optimizer") == ["lion"]
    assert set(health(whole).values()) == {"ok", "broken"}
    assert sorted(health(part).values()) == ["disabled", "disabled", "ok"]
    assert whole.get("optimizer", "lion") is not part.get("optimizer", "lion")


# Plugins that are broken


@pytest.mark.parametrize("how", BREAKAGES)
def test_a_broken_plugin_becomes_a_row_with_its_reason_and_its_mend(provide: Provide, call: Cli, how: str) -> None:
    source, reason, imported = BREAKAGES[how]
    # The broken one comes between two that are well, so it can spoil what came before it and what comes after.
    points = provide({"cats/a": LION, "lame/b": source, "dogs/c": TIGER})
    registry = Registry(entry_points=points)
    assert health(registry) == {"cats/a": "ok", "lame/b": "broken", "dogs/c": "ok"}
    assert names(registry, "optimizer") == ["lion", "tiger"]
    (lame,) = (plugin for plugin in registry.plugins if plugin.name == "b")
    assert lame.reason.startswith(reason)
    assert lame.reason
    assert "\n" not in lame.reason
    if imported:
        assert lame.mend == "its author must change it; until then: --no-plugin b"
    else:
        assert lame.mend == "repair or reinstall it, or remove it: playground uninstall lame"

    listed = call("list", "--json")
    assert listed.code == 0
    assert plugin_rows(listed.json) == {
        "b": {
            "kind": "plugin",
            "name": "b",
            "summary": f"{lame.reason}; {lame.mend}",
            "plugin": "b",
            "distribution": "lame",
            "version": "1.2.3",
            "status": "broken",
        }
    }
    assert {"sgd", "lion", "tiger"} <= {row["name"] for row in listed.json}
    table = call("list", "optimizer")
    assert table.code == 0
    assert "adagrad" in table.out
    assert f"plugin lame/b 1.2.3 is broken: {lame.reason}; {lame.mend}" in table.err
    assert call("run", "--help").code == 0
    assert call("data", "path", "airfoil").code == 0

    mended = call("list", "--json", "--no-plugin", "b")
    assert plugin_rows(mended.json)["b"]["status"] == "disabled"


@pytest.mark.parametrize("distribution", ["lame", "playground-lame", "playground_lame"])
def test_a_hook_with_an_argument_that_is_not_its_is_explained_by_that_argument(
    provide: Provide, distribution: str
) -> None:
    source = f"{HEAD}@hookimpl\ndef playground_optimizers(flavour):\n    return []\n"
    (lame,) = Registry(entry_points=provide({distribution: source})).plugins
    assert lame.status == "broken"
    assert "flavour" in lame.reason
    assert "playground_optimizers" in lame.reason
    assert "there is no hook" not in lame.reason
    assert "did you mean" not in lame.reason


def test_hooks_of_a_broken_plugin_are_not_called_during_a_run(provide: Provide) -> None:
    source = (
        f"{HEAD}@hookimpl\ndef playground_run_start(run):\n    run.append('broken')\n\n\n"
        "@hookimpl\ndef playground_optimisers():\n    return []\n"
    )
    registry = Registry(entry_points=provide({"lame": source}))
    assert set(health(registry).values()) == {"broken"}
    calls: list[str] = []
    registry.notify("playground_run_start", calls.append, run=calls)
    assert calls == []


@pytest.mark.parametrize(
    "value", ["no_such_module_at_all", "json:nothing", "json", "math:pi", "os:path.nothing", "not a module!", ""]
)
def test_an_entry_point_that_leads_to_no_plugin_is_broken(provide: Provide, value: str) -> None:
    points = provide({"cats": LION})
    point = type(points[0])("lame", value, "playground")
    registry = Registry(entry_points=[point, *points])
    assert health(registry) == {"cats/cats_plugin": "ok", "unknown/lame": "broken"}


def test_two_entry_points_to_one_module_give_its_components_once(two_in_one: Callable[..., list[EntryPoint]]) -> None:
    registry = Registry(entry_points=two_in_one({"cats": "felines", "lions": "felines"}, {"felines": LION}))
    assert health(registry) == {"pair/cats": "ok", "pair/lions": "broken"}
    (lions,) = (plugin for plugin in registry.plugins if plugin.name == "lions")
    assert lions.reason == "points to the same module as the plugin pair/cats"
    assert names(registry, "optimizer") == ["lion"]


@pytest.mark.parametrize("metadata", [None, "", "Metadata-Version: 2.1\nName: stray\n"])
def test_a_distribution_whose_metadata_were_lost_does_no_harm(tmp_path: Path, cli: Cli, metadata: str | None) -> None:
    info = tmp_path / "site" / "stray-1.0.dist-info"
    info.mkdir(parents=True)
    (info.parent / "stray.py").write_text(LION, encoding="utf-8")
    (info / "entry_points.txt").write_text("[playground]\nstray = stray\n", encoding="utf-8")
    if metadata is not None:
        (info / "METADATA").write_text(metadata, encoding="utf-8")
    env = {"PYTHONPATH": str(info.parent)}
    listed = cli("list", "optimizer", env=env)
    assert (listed.code, listed.err) == (0, "")
    assert "adagrad" in listed.out
    assert "lion" in listed.out
    assert "None" not in listed.out


@pytest.mark.parametrize("content", [b"[playground]\nstray\n", b"\xff\xfe", b"[playground"])
def test_a_distribution_whose_entry_points_cannot_be_read_does_no_harm(
    tmp_path: Path, cli: Cli, content: bytes
) -> None:
    info = tmp_path / "site" / "stray-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stray\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_bytes(content)
    listed = cli("list", "--json", env={"PYTHONPATH": str(info.parent)})
    assert listed.code == 0
    assert {"airfoil", "linear", "sgd", "single"} <= {row["name"] for row in listed.json}
    for row in plugin_rows(listed.json).values():
        assert (row["distribution"], row["version"], row["status"]) == ("stray", "1.0", "broken")


def test_what_a_plugin_prints_does_not_get_into_the_result(install_plugin: Install, cli: Cli) -> None:
    source = f"print('an import')\n{HEAD}@hookimpl\ndef playground_optimizers():\n    print('a hook')\n    return []\n"
    listed = cli("list", "--json", env=install_plugin("talker", source))
    assert listed.code == 0
    assert isinstance(listed.json, list)
    assert listed.err == "an import\na hook\n"


FACTORY = (
    "import torch\n\nprint('a factory')\n\n\n"
    "def noisy(params, lr: float = 0.1):\n    print('a call')\n    return torch.optim.SGD(params, lr)\n"
)


def test_what_a_factory_prints_does_not_get_into_the_result(provide: Provide, call: Cli, tmp_path: Path) -> None:
    provide({"talker": optimizers("Optimizer('noisy', 'chatter:noisy')")}, {"chatter": FACTORY})
    shown = call("show", "optimizer", "noisy", "--json")
    assert shown.json["name"] == "noisy"
    assert "a factory" in shown.err
    ran = call(
        *("run", "--optimizer", "noisy", "--data", "linear-regression:rows=20", "--epochs", 1, "--json"),
        *("--out", tmp_path / "runs"),
    )
    assert ran.json["status"] == "done"
    assert "a call" in ran.err


# Plugins that clash


def test_what_a_data_set_suggests_is_what_its_author_knew(provide: Provide, call: Cli, tmp_path: Path) -> None:
    linear = f"{HEAD}@hookimpl\ndef playground_models():\n    return [Model('linear', 'no:such')]\n"
    provide({"stranger/mine": linear})
    ran = call("run", "--epochs", 1, "--json", "--out", tmp_path / "runs")
    assert ran.code == 0, ran.err
    # The stranger's factory is nowhere: had it been meant, nothing would have run.
    assert ran.json["experiment"]["model"]["name"].rpartition("/")[2] == "linear"
    # Who says the name without the distribution is asked which one is meant.
    asked = call("run", "--model", "linear")
    assert asked.code == 2
    assert "say 'optim-playground/linear' or 'stranger/linear'" in asked.err
    (row,) = (row for row in call("plugins", "--json").json if row["distribution"] == "stranger")
    assert row["status"] == "clashing"
    assert row["mend"].endswith("--no-plugin stranger/mine")


@pytest.mark.parametrize(
    "source",
    ["raise KeyboardInterrupt", f"{HEAD}@hookimpl\ndef playground_optimizers():\n    raise KeyboardInterrupt\n"],
    ids=["import", "hook"],
)
def test_what_is_loaded_when_it_is_interrupted_is_named(source: str, provide: Provide, call: Cli) -> None:
    provide({"cats": source})
    done = call("list")
    assert (done.code, done.out) == (130, "")
    said = "while the plugin cats/cats_plugin was loaded; to go without: --no-plugin cats_plugin"
    assert done.err == f"\nerror: interrupted {said}\n"
    assert call("list", "--no-plugin", "cats").code == 0


def test_a_misspelt_factory_gets_a_suggestion(provide: Provide) -> None:
    provide({"cats": optimizers("Optimizer('lion', 'torch.optim:Adamax_')")})
    registry = Registry(entry_points=provide({"cats": optimizers("Optimizer('lion', 'torch.optim:ADAMW')")}))
    with pytest.raises(
        ComponentError, match=r"'torch.optim:ADAMW' leads nowhere: there is no 'ADAMW'; did you mean 'Adam"
    ):
        _ = registry.get("optimizer", "lion").factory


def test_a_disabled_plugin_s_component_is_said_to_be_that(provide: Provide, call: Cli) -> None:
    provide({"cats": LION})
    done = call("run", "--no-plugin", "cats", "--optimizer", "cats/lion")
    assert (done.code, done.err) == (
        2,
        "error: no optimizer 'cats/lion': plugin cats/cats_plugin is disabled: disabled by request (--no-plugin); "
        "take it out of there to use it\n",
    )


def test_what_a_strangers_data_set_suggests_is_first_what_lies_beside_it(provide: Provide) -> None:
    source = (
        f"{HEAD}@hookimpl\ndef playground_data():\n"
        "    return [Data('mine', 'a:b', settings={'model': 'linear', 'optimizer': 'sgd'})]\n\n\n"
        "@hookimpl\ndef playground_models():\n    return [Model('linear', 'c:d')]\n"
    )
    registry = Registry(entry_points=[*builtin_points(), *provide({"stranger": source, "other": source})])
    plugin = next(one for one in registry.plugins if one.distribution == "stranger")
    assert registry.meant_by(plugin, "model", "linear") == "stranger/linear"
    assert registry.meant_by(plugin, "optimizer", "sgd") == "sgd"
    assert registry.meant_by(plugin, "optimizer", "sdg") == "sdg"


def test_two_plugins_under_one_entry_point_name_are_both_named(provide: Provide, call: Cli) -> None:
    registry = Registry(entry_points=provide({"cats/pets": LION, "dogs/pets": TIGER}))
    assert health(registry) == {"cats/pets": "clashing", "dogs/pets": "clashing"}
    reasons = {plugin.distribution: plugin.reason for plugin in registry.plugins}
    assert reasons == {
        "cats": "the entry point 'pets' of cats is also declared by dogs",
        "dogs": "the entry point 'pets' of dogs is also declared by cats",
    }
    # Nothing of them vanishes.
    assert names(registry, "optimizer") == ["lion", "tiger"]
    listed = call("list", "--json")
    ailing = [(row["plugin"], row["status"]) for row in listed.json if row["kind"] == "plugin"]
    assert ailing == [("pets", "clashing")] * 2
    table = call("list")
    assert "plugin cats/pets 1.2.3 is clashing" in table.err
    assert "plugin dogs/pets 1.2.3 is clashing" in table.err


def test_a_component_that_two_plugins_provide_must_be_called_by_a_qualified_name(provide: Provide, call: Cli) -> None:
    registry = Registry(entry_points=provide({"cats/a": LION, "zoo/b": LION}))
    assert health(registry) == {"cats/a": "clashing", "zoo/b": "clashing"}
    assert names(registry, "optimizer") == ["cats/lion", "zoo/lion"]
    with pytest.raises(RequestError) as refused:
        registry.get("optimizer", "lion")
    assert str(refused.value) == "optimizer 'lion' is provided by 2 plugins: say 'cats/lion' or 'zoo/lion'"
    for qualified, distribution in {"cats/lion": "cats", "zoo/lion": "zoo", "a/lion": "cats", "b/lion": "zoo"}.items():
        assert registry.get("optimizer", qualified).plugin.distribution == distribution
    reasons = {plugin.qualified: plugin.reason for plugin in registry.plugins}
    assert reasons == {
        "cats/a": "optimizer 'lion' is also provided by zoo/b",
        "zoo/b": "optimizer 'lion' is also provided by cats/a",
    }
    run = call("run", "--optimizer", "lion")
    assert (run.code, run.err) == (2, f"error: {refused.value}\n")
    rows = {row["name"]: row for row in call("list", "optimizer", "--json").json if row["kind"] == "optimizer"}
    assert {name: rows[name]["status"] for name in ("cats/lion", "zoo/lion", "sgd")} == {
        "cats/lion": "clashing",
        "zoo/lion": "clashing",
        "sgd": "ok",
    }


def test_a_component_named_like_one_of_the_project_hides_neither(provide: Provide) -> None:
    points = [*builtin_points(), *provide({"other": optimizers("Optimizer('adam', 'torch.optim:SGD')")})]
    registry = Registry(entry_points=points)
    assert {"optim-playground/adam", "other/adam", "sgd"} <= set(names(registry, "optimizer"))
    assert registry.get("optimizer", "optim-playground/adam").component.source == "torch.optim:Adam"
    assert registry.get("optimizer", "other/adam").component.source == "torch.optim:SGD"
    assert registry.get("optimizer", "sgd").name == "sgd"


def test_one_name_for_components_of_two_kinds_is_no_clash(provide: Provide) -> None:
    source = f"{HEAD}@hookimpl\ndef playground_models():\n    return [Model('lion', 'a:b')]\n"
    registry = Registry(entry_points=provide({"cats": LION, "zoo": source}))
    assert set(health(registry).values()) == {"ok"}
    assert registry.get("model", "lion").plugin.distribution == "zoo"


def test_a_distribution_that_provides_a_component_twice_is_told_apart_by_its_plugins(
    two_in_one: Callable[..., list[EntryPoint]],
) -> None:
    registry = Registry(entry_points=two_in_one({"a": "cats", "b": "zoo"}, {"cats": LION, "zoo": LION}))
    assert names(registry, "optimizer") == ["a/lion", "b/lion"]
    assert registry.get("optimizer", "a/lion").plugin.name == "a"
    assert registry.get("optimizer", "b/lion").plugin.name == "b"
    for ambiguous in ("lion", "pair/lion"):
        with pytest.raises(RequestError, match=r"is provided by 2 plugins: say 'a/lion' or 'b/lion'$"):
            registry.get("optimizer", ambiguous)


CLASHES = [
    ["cats/a", "zoo/b"],
    ["cats/a", "zoo/a"],
    # A fork that kept the name of the entry point, which is the original's distribution too.
    ["lion/lion", "lion-fork/lion"],
    ["cats/zoo", "zoo/b"],
    ["cats/a", "dogs/b", "zoo/c"],
    ["cats/a", "zoo/a", "dogs/b"],
]


@pytest.mark.parametrize("plugins", CLASHES, ids=" ".join)
def test_every_name_that_is_shown_finds_the_component_that_it_stands_for(provide: Provide, plugins: list[str]) -> None:
    registry = Registry(entry_points=provide(dict.fromkeys(plugins, LION)))
    assert len({one.name for one in registry.components}) == len(plugins)
    for one in registry.components:
        assert registry.get("optimizer", one.name) is one
    with pytest.raises(RequestError) as refused:
        registry.get("optimizer", "lion")
    for one in registry.components:
        assert f"'{one.name}'" in str(refused.value)


def test_a_name_is_unambiguous_among_plugins_of_one_distribution_and_of_another(
    provide: Provide, two_in_one: Callable[..., list[EntryPoint]]
) -> None:
    points = [*two_in_one({"a": "one", "b": "two"}, {"one": LION, "two": LION}), *provide({"zoo/a": LION})]
    registry = Registry(entry_points=points)
    assert len(registry.components) == 3
    for one in registry.components:
        assert registry.get("optimizer", one.name) is one


@pytest.mark.parametrize("plugins", CLASHES[:4], ids=" ".join)
def test_the_mend_of_a_clash_of_components_mends_it(provide: Provide, plugins: list[str]) -> None:
    mend_each(provide(dict.fromkeys(plugins, LION)))


@pytest.mark.parametrize("plugins", CLASHES[1:3], ids=" ".join)
def test_the_mend_of_a_clash_of_entry_points_mends_it(provide: Provide, plugins: list[str]) -> None:
    mend_each(provide(dict(zip(plugins, [LION, TIGER], strict=True))))


def mend_each(points: list[EntryPoint]) -> None:
    """Do for each of two clashing plugins what its mend says; then one is left, and it is well."""
    ailing = Registry(entry_points=points).plugins
    assert [plugin.status for plugin in ailing] == ["clashing", "clashing"]
    for plugin in ailing:
        (named,) = re.findall(r"--no-plugin (\S+)", plugin.mend)
        mended = Registry(entry_points=points, disable=[named])
        assert sorted(health(mended).values()) == ["disabled", "ok"]
        assert all(one.name == one.component.name for one in mended.components)


# Plugins that are not wanted


def marking(marker: Path, source: str = LION) -> str:
    """A plugin that leaves a file behind when it is imported."""
    return f"import pathlib\n\npathlib.Path({str(marker)!r}).touch()\n{source}"


@pytest.mark.parametrize("name", ["cats", "felines", "big-cats", "big-cats/cats"])
@pytest.mark.parametrize("door", ["option before", "option after", "environment"])
def test_a_disabled_plugin_is_not_even_imported(
    install_plugin: Install,
    in_process_plugins: Use,
    call: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    door: str,
) -> None:
    marker = tmp_path / "imported"
    in_process_plugins(install_plugin("big-cats", marking(marker), "cats", module="felines"))
    if door == "environment":
        monkeypatch.setenv("PLAYGROUND_DISABLE_PLUGINS", f" , absent,{name} ")
    option = [] if door == "environment" else ["--no-plugin", name]
    listed = call(*option, "list", "--json") if door == "option before" else call("list", "--json", *option)
    assert listed.code == 0
    assert not marker.exists()
    assert "lion" not in {row["name"] for row in listed.json}
    by = "$PLAYGROUND_DISABLE_PLUGINS" if door == "environment" else "request (--no-plugin)"
    assert plugin_rows(listed.json) == {
        "cats": {
            "kind": "plugin",
            "name": "cats",
            "summary": f"disabled by {by}; take it out of there to use it",
            "plugin": "cats",
            "distribution": "big-cats",
            "version": "1.2.3",
            "status": "disabled",
        }
    }


def test_a_plugin_that_is_not_disabled_is_imported(
    install_plugin: Install, in_process_plugins: Use, call: Cli, tmp_path: Path
) -> None:
    marker = tmp_path / "imported"
    in_process_plugins(install_plugin("big-cats", marking(marker), "cats", module="felines"))
    assert call("run", "--help").code == 0
    assert not marker.exists()
    assert "lion" in {row["name"] for row in call("list", "--json").json}
    assert marker.exists()


def test_several_plugins_can_be_disabled_at_once(provide: Provide, monkeypatch: pytest.MonkeyPatch) -> None:
    points = provide({"a": LION, "b": TIGER, "c": LION, "d": TIGER})
    monkeypatch.setenv("PLAYGROUND_DISABLE_PLUGINS", "c,d,")
    registry = Registry(entry_points=points, disable=["a"])
    assert [plugin.status for plugin in registry.plugins] == ["disabled", "ok", "disabled", "disabled"]
    assert names(registry, "optimizer") == ["tiger"]


def test_a_plugin_of_the_project_can_be_disabled_too(call: Cli) -> None:
    listed = call("list", "--json", "--no-plugin", "optimizers", "--no-plugin", "playground_plugins.data")
    assert {row["kind"] for row in listed.json} == {"model", "backend", "plugin"}
    run = call("run", "--no-plugin", "optimizers", "--optimizer", "sgd")
    assert run.code == 2
    assert (
        run.err
        == "error: unknown optimizer 'sgd'; there are: none (optimizers is disabled; 'playground plugins' says why)\n"
    )


def test_a_plugin_that_is_not_there_cannot_be_disabled_by_option(call: Cli) -> None:
    for arguments in (["list", "--no-plugin", "optimisers"], ["--no-plugin", "optimisers", "run"]):
        refused = call(*arguments)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == "error: there is no plugin 'optimisers'; did you mean 'optimizers'?\n"
    refused = call("list", "--no-plugin", "zzz")
    assert refused.err == "error: there is no plugin 'zzz'; there are: backends, data, models, optimizers\n"


def test_a_plugin_that_is_not_there_may_stand_in_the_environment(call: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_DISABLE_PLUGINS", "uninstalled long ago")
    assert (call("list").code, call("list").err) == (0, "")


# Look-up


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("optimizer", "adagrd", "unknown optimizer 'adagrd'; did you mean 'adagrad'?"),
        ("optimizer", "optim-playground/adagrd", "unknown optimizer 'optim-playground/adagrd'"),
        ("optimizer", "nobody/adam", "unknown optimizer 'nobody/adam'"),
        ("optimizer", "linear", "unknown optimizer 'linear'"),
        ("backend", "zzz", "unknown backend 'zzz'; there are: data-parallel, manual, single"),
        ("model", "", "unknown model ''; there are: lenet, linear, mlp, resnet18"),
    ],
)
def test_a_component_that_is_not_there_is_refused_with_a_suggestion(kind: str, name: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        Registry(entry_points=builtin_points()).get(kind, name)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("name", ["adam", "optim-playground/adam", "optimizers/adam"])
def test_a_component_is_found_by_its_bare_and_by_its_qualified_name(name: str) -> None:
    assert Registry(entry_points=builtin_points()).get("optimizer", name).name == "adam"


def test_a_component_of_a_plugin_that_could_not_be_loaded_is_missed_with_a_hint(provide: Provide) -> None:
    registry = Registry(entry_points=provide({"lame/cats": "import no_such_module_at_all"}))
    with pytest.raises(RequestError) as refused:
        registry.get("optimizer", "lion")
    assert str(refused.value) == (
        "unknown optimizer 'lion'; there are: none (cats is broken; 'playground plugins' says why)"
    )


def test_without_exactly_one_default_a_run_must_choose(provide: Provide) -> None:
    with pytest.raises(RequestError) as refused:
        Registry(entry_points=provide({"cats": LION})).default("optimizer")
    assert str(refused.value) == (
        "no optimizer was chosen, and none is offered as the default; choose one with --optimizer"
    )
    offers = {name: optimizers(f"Optimizer('{name}', 'a:b', default=True)") for name in ("wolf", "fox")}
    strangers = provide(offers)
    with pytest.raises(RequestError) as refused:
        Registry(entry_points=strangers).default("optimizer")
    assert str(refused.value) == (
        "no optimizer was chosen, and several are offered as the default: fox, wolf; choose one with --optimizer"
    )
    # What people are used to does not change when a stranger's plugin is installed.
    assert Registry(entry_points=[*builtin_points(), *strangers]).default("optimizer").name == "sgd"


def test_each_kind_has_a_default_that_comes_with_the_project() -> None:
    registry = Registry(entry_points=builtin_points())
    assert {kind: registry.default(kind).name for kind in KINDS} == {
        "data": "airfoil",
        "model": "linear",
        "optimizer": "sgd",
        "backend": "single",
    }


# Factories that fail


@pytest.mark.parametrize(
    ("factory", "cause"),
    [
        ("no_such_module_at_all:Lion", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:Lion", "AttributeError: 'json:Lion' leads nowhere: there is no 'Lion'"),
        ("math:pi", "TypeError: 'math:pi' is a float, which cannot be called"),
        ("leaver:Lion", "SystemExit: 7"),
    ],
)
def test_a_factory_that_cannot_be_loaded_names_its_component_its_plugin_and_the_cause(
    provide: Provide, call: Cli, tmp_path: Path, factory: str, cause: str
) -> None:
    provide({"stranger/cats": optimizers(f"Optimizer('lion', {factory!r})")}, {"leaver": "raise SystemExit(7)"})
    message = f"error: optimizer 'lion' (plugin stranger/cats 1.2.3) cannot be loaded: {cause}\n"
    for arguments in (["run", "--optimizer", "lion"], ["show", "optimizer", "lion"]):
        refused = call(*arguments)
        assert (refused.code, refused.out, refused.err) == (2, "", message)
    assert list(tmp_path.iterdir()) == []
    # Nobody else is harmed, and the component stays in the list, where its plugin's author will look for it.
    assert "lion" in {row["name"] for row in call("list", "--json").json}
    assert call("show", "optimizer", "sgd").code == 0


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        ("ValueError('lr is too odd')", "ValueError: lr is too odd"),
        ("SystemExit(7)", "SystemExit: 7"),
        ("RuntimeError('one\\n  two')", "RuntimeError: one two"),
    ],
)
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_factory_that_raises_names_its_component_its_plugin_and_the_cause(
    provide: Provide, call: Cli, tmp_path: Path, kind: str, raised: str, cause: str
) -> None:
    hook = "playground_data" if kind == "data" else f"playground_{kind}s"
    source = (
        f"{HEAD}def fail(*leading, **parameters):\n    raise {raised}\n\n\n"
        f"@hookimpl\ndef {hook}():\n    return [{kind.title()}('lion', fail)]\n"
    )
    provide({"stranger/cats": source})
    others = [] if kind == "data" else ["--data", "linear-regression:rows=10"]
    refused = call("run", f"--{kind}", "lion", *others)
    assert refused.code == 2
    assert refused.out == ""
    assert refused.err == f"error: {kind} 'lion' (plugin stranger/cats 1.2.3) cannot be built: {cause}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_cause_of_a_failing_factory_is_kept(provide: Provide) -> None:
    source = f"{HEAD}def fail(params):\n    raise ZeroDivisionError('by zero')\n\n\n" + LION.replace(
        "'torch.optim:SGD'", "fail"
    )
    lion = Registry(entry_points=provide({"cats": source})).get("optimizer", "lion")
    with pytest.raises(ComponentError) as failed:
        lion.build([])
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_defaults_that_a_factory_does_not_take_are_the_component_s_fault(provide: Provide) -> None:
    source = optimizers("Optimizer('lion', 'torch.optim:SGD', defaults={'rate': 1})")
    lion = Registry(entry_points=provide({"stranger/cats": source})).get("optimizer", "lion")
    with pytest.raises(ComponentError) as failed:
        lion.parameters  # noqa: B018 - reading them is what raises
    assert str(failed.value) == (
        "optimizer 'lion' (plugin stranger/cats 1.2.3) has parameters that cannot be read: "
        "ValueError: its defaults name 'rate', which its factory does not take"
    )


PATHS = {
    "a reference to what is not there": "'no_such_module_at_all:path'",
    "a file name instead of a path": "'some file.dat'",
    "a callable that raises": "lambda: 1 / 0",
    "a callable that exits": "fail",
    "a callable that returns a word": "lambda: 'some file.dat'",
    "a number": "5",
}


@pytest.mark.parametrize("path", PATHS)
def test_data_that_cannot_say_where_it_lies_does_no_harm(provide: Provide, call: Cli, path: str) -> None:
    source = (
        f"{HEAD}def load(rows: int = 1): ...\n\n\ndef fail():\n    raise SystemExit(7)\n\n\n"
        f"@hookimpl\ndef playground_data():\n    return [Data('lost', load, path={PATHS[path]})]\n"
    )
    provide({"stranger": source})
    listed = call("data", "list", "--json")
    assert listed.code == 0
    assert "airfoil" in {row["name"] for row in listed.json}
    for arguments in (["data", "path", "lost"], ["show", "data", "lost"]):
        found = call(*arguments)
        assert found.code in (0, 2)
        assert "fault of playground's own" not in found.err
    assert call("show", "data", "airfoil").code == 0


# The life of a run


def hooks(body: str, head: str = "") -> str:
    """A plugin that has the three hooks of a run's life; `body` is what each does, `{hook}` and `{what}` its words."""
    parts = [HEAD, head]
    for hook, arguments, what in (
        ("playground_run_start", "run", "run.status, len(run.history)"),
        ("playground_evaluation", "run, record", "record['step'], record == run.history[-1]"),
        ("playground_run_end", "run", "run.status, len(run.history)"),
    ):
        parts.append(f"@hookimpl\ndef {hook}({arguments}):\n    {body.format(hook=hook, what=what)}\n\n\n")
    return "".join(parts)


WITNESS = hooks("calls.append(({hook!r}, {what}))", "calls = []\n\n\n")


def train(points: list[EntryPoint]) -> playground.Run:
    registry = Registry(entry_points=[*builtin_points(), *points])
    return playground.run("linear-regression:rows=40", epochs=1, eval_every=20, out=None, registry=registry)


def test_hooks_of_a_run_are_called_when_and_with_what_they_are_said_to_be(provide: Provide) -> None:
    run = train(provide({"witness": WITNESS}))
    assert sys.modules["witness_plugin"].calls == [
        ("playground_run_start", "running", 0),
        ("playground_evaluation", 0, True),
        ("playground_evaluation", 2, True),
        ("playground_evaluation", 4, True),
        ("playground_run_end", "done", 3),
    ]
    assert run.status == "done"


def test_hooks_are_called_in_the_order_in_which_the_plugins_were_found(provide: Provide) -> None:
    source = f"{HEAD}@hookimpl\ndef playground_run_start(run):\n    run.append(__name__)\n"
    registry = Registry(entry_points=provide({"z/b": source, "y/c": source, "x/a": source}))
    calls: list[str] = []
    registry.notify("playground_run_start", calls.append, run=calls)
    assert calls == ["x_a", "z_b", "y_c"]
    assert [plugin.name for plugin in registry.plugins] == ["a", "b", "c"]


def test_a_hook_need_not_take_every_argument(provide: Provide) -> None:
    source = f"{HEAD}calls = []\n\n\n@hookimpl\ndef playground_evaluation(record):\n    calls.append(record['step'])\n"
    train(provide({"witness": source}))
    assert sys.modules["witness_plugin"].calls == [0, 2, 4]


@pytest.mark.parametrize(
    ("raised", "cause"),
    [("RuntimeError('no\\nroom')", "RuntimeError: no room"), ("SystemExit(7)", "SystemExit: 7")],
)
def test_a_hook_that_raises_is_reported_and_harms_nothing(
    provide: Provide, raised: str, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = train(provide({"witness/b": WITNESS}))
    expected = list(sys.modules["witness_b"].calls)
    sys.modules["witness_b"].calls.clear()

    run = train(provide({"lame/a": hooks(f"raise {raised}"), "witness/b": WITNESS}))
    assert run.status == "done"
    assert [record["train_loss"] for record in run.history] == [record["train_loss"] for record in alone.history]
    assert sys.modules["witness_b"].calls == expected
    assert caplog.messages == [
        f"plugin lame/a failed in {hook}: {cause}"
        for hook in ["playground_run_start", *["playground_evaluation"] * 3, "playground_run_end"]
    ]


def test_a_hook_that_raises_leaves_the_result_of_the_command_alone(
    install_plugin: Install, in_process_plugins: Use, call: Cli
) -> None:
    in_process_plugins(install_plugin("lame", hooks("print('in a hook'); raise RuntimeError('no room')")))
    ran = call("run", "--data", "linear-regression:rows=20", "--epochs", 1, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["status"] == "done"
    assert "plugin lame/lame failed in playground_run_start: RuntimeError: no room" in ran.err


def test_a_registry_calls_only_its_own_plugins(provide: Provide) -> None:
    points = provide({"witness": WITNESS})
    Registry(entry_points=points)
    train([])
    assert sys.modules["witness_plugin"].calls == []
