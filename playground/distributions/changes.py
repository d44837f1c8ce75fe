"""Installing and removing plugins, and what came and went by it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.discovery import normal
from playground.distributions import inventory
from playground.distributions.installed import Installed, installed, named
from playground.distributions.pip import PipError, held, pip
from playground.errors import RequestError, brief
from playground.registry import HOME

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Change:
    """A distribution with plugins that came or went.

    components: as `kind name`. faults: why plugins of it cannot be used, or why nobody can say what they provide.
    """

    distribution: Installed
    components: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, distribution: Installed, *, gone: bool = False) -> Change:
        """Ask a child process what the distribution provides. gone: whether it is about to go, faults and all."""
        try:
            plugins = inventory.provided(distribution.name)
        except (OSError, ValueError) as error:
            return cls(distribution, faults=(f"its components are not known: {brief(error)}",))
        components = tuple(component for plugin in plugins for component in plugin["components"])
        faults = tuple(
            f"plugin {one['name']} was {one['status']}" if gone else one["complaint"]
            for one in plugins
            if one["complaint"] and not (gone and one["components"])
        )
        return cls(distribution, components, faults)


@dataclass(frozen=True)
class Installation:
    """What an installation did. changes: distributions with plugins. others: further ones that were asked for."""

    changes: tuple[Change, ...]
    others: tuple[str, ...]


def install(
    requirements: Sequence[str], *, files: Sequence[Path] = (), editable: Sequence[Path] = (), upgrade: bool = False
) -> Installation:
    """Install distributions with pip, and say what they provide.

    requirements: names, paths of folders or wheels, URLs, as pip takes them. files: files of such lines.
    editable: folders that are installed as they lie.

    Raises RequestError where nothing is asked for or a path leads nowhere; PipError where pip fails.
    """
    _check(requirements, files, editable)
    with tempfile.TemporaryDirectory(prefix="playground-") as folder:
        constraints, report = Path(folder) / "held.txt", Path(folder) / "report.json"
        constraints.write_text("\n".join(held()), encoding="utf-8")
        asked = [
            *(["--upgrade"] if upgrade else []),
            *(word for file in files for word in ("--requirement", str(file))),
            *(word for one in editable for word in ("--editable", str(one))),
            *requirements,
        ]
        try:
            pip("install", asked, options=["--constraint", str(constraints), "--report", str(report)])
        except PipError as error:
            folders = [one for one in requirements if "/" not in one and Path(one).is_dir()]
            hint = f"; there is a folder of that name, which is ./{folders[0]}" if folders else ""
            raise PipError(f"{error}{hint}") from None
        items: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8")).get("install", [])
    here = installed()
    came = [(item["metadata"]["name"], item["metadata"]["version"], item.get("requested", False)) for item in items]
    return Installation(
        tuple(Change.of(here[normal(name)]) for name, _, _ in came if normal(name) in here),
        tuple(f"{name} {version}" for name, version, asked in came if asked and normal(name) not in here),
    )


def uninstall(name: str) -> Change:
    """Remove the distribution of a plugin with pip, and say what went.

    name: of the distribution, or of one of its plugins or modules. Raises RequestError where it is no plugin, PipError
    where pip fails or leaves it.
    """
    distribution = named(name)
    change = Change.of(distribution, gone=True)
    try:
        pip("uninstall", [distribution.name], options=["--yes"])
        if distribution.key in installed():
            raise PipError(f"{distribution} is still here, since pip knows no files of it in its own environment")
    except PipError as error:
        raise PipError(f"{error}; {distribution.by_hand}") from None
    return change


def _check(requirements: Sequence[str], files: Sequence[Path], editable: Sequence[Path]) -> None:
    if not requirements and not files and not editable:
        raise RequestError("nothing to install: give a name, a path or a wheel, or -r FILE")
    for one in requirements:
        if not one.strip():
            raise RequestError("nothing to install: a name is empty")
        if one.startswith("-"):
            raise RequestError(f"'{one}' is no name, path or wheel; 'python -m pip install' takes pip's other options")
        if normal(one.split("[")[0]) == HOME:
            raise RequestError(f"{HOME} is playground itself; pip upgrades it: python -m pip install -U {HOME}")
        path_like = one.endswith((".whl", ".tar.gz", ".zip")) or "/" in one or one in (".", "..")
        if path_like and "://" not in one and " @ " not in one and not Path(one.split("[")[0]).exists():
            raise RequestError(f"there is no file or folder {one}")
    for path in (*files, *(Path(str(one).split("[")[0]) for one in editable)):
        if not path.exists():
            raise RequestError(f"there is no file or folder {path}")
