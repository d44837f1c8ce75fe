"""The installed distributions that declare plugins, by their metadata alone."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playground.discovery import UNKNOWN, Plugin, discover, normal
from playground.errors import RequestError, did_you_mean
from playground.registry import HOME


@dataclass
class Installed:
    """A distribution with plugins. name, version: its own. plugins: what its entry points say, not loaded."""

    name: str
    version: str
    plugins: list[Plugin] = field(default_factory=list)

    @property
    def by_hand(self) -> str:
        """How to be rid of it without pip."""
        return _by_hand(self.plugins[0])

    @property
    def key(self) -> str:
        return normal(self.name)

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def origin(self) -> dict[str, Any]:
        """Where pip had it from, if not from an index (PEP 610, direct_url.json); empty if from one, or unknown."""
        try:
            text = importlib.metadata.distribution(self.name).read_text("direct_url.json")
            found = json.loads(text) if text else {}
        except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("url"), str) else {}


def installed() -> dict[str, Installed]:
    """All of them by normal name, this project's own among them."""
    found: dict[str, Installed] = {}
    for plugin in _plugins():
        if plugin.distribution != UNKNOWN:
            one = found.setdefault(normal(plugin.distribution), Installed(plugin.distribution, plugin.version))
            one.plugins.append(plugin)
    return found


def _plugins() -> list[Plugin]:
    importlib.invalidate_caches()
    entry_points, unreadable = discover()
    return [*map(Plugin.of, entry_points), *unreadable]


def _by_hand(plugin: Plugin) -> str:
    return f"where nothing else helps, delete {plugin.folder or 'its metadata'}: without that it is no plugin"


def _nameless(name: str) -> list[Plugin]:
    """The plugins that a name means and that belong to no distribution that can be read, by their folder's name too."""
    return [
        plugin
        for plugin in _plugins()
        if plugin.distribution == UNKNOWN
        and (plugin.answers_to(name) or normal(Path(plugin.folder).name).startswith(f"{normal(name)}-"))
    ]


def named(name: str) -> Installed:
    """The distribution that a plugin's name, module or distribution means.

    Raises RequestError where it means none, several, or this project itself.
    """
    here = installed()
    found = here.get(normal(name))
    if found is None:
        owners = [one for one in here.values() if any(plugin.answers_to(name) for plugin in one.plugins)]
        if len(owners) > 1:
            raise RequestError(f"'{name}' means plugins of {', '.join(one.name for one in owners)}: say which of them")
        found = owners[0] if owners else None
    if found is None:
        for plugin in _nameless(name):
            what = f"'{name}' is a plugin of a distribution whose name cannot be read, which pip cannot remove"
            raise RequestError(f"{what}; {_by_hand(plugin)}")
        others = [one.name for one in here.values() if one.name != HOME]
        hint = did_you_mean(name, others) or f"; installed plugins: {', '.join(others) or 'none'}"
        raise RequestError(f"'{name}' is no plugin of playground{hint}")
    if found.name == HOME:
        raise RequestError(f"'{name}' is playground itself; pip removes it: python -m pip uninstall {HOME}")
    return found
