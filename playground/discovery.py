"""Finding plugins by the entry points of installed distributions, before anything of theirs is imported."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playground.errors import brief

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "playground"
UNKNOWN = "unknown"

Status = Literal["ok", "broken", "clashing", "disabled"]


@dataclass
class Plugin:
    """One entry point: where it comes from, and whether it can be used.

    name: the entry point's name. module: what it points to.
    status: `ok`, `broken`, `clashing` or `disabled`; where it is not ok, `reason` says why and `mend` what to do.
    seconds: what importing it and asking for its components took; None where it was not imported.
    remarks: what its users suffer from though it works: that it is slow to import, or prints.
    folder: where its distribution's metadata lie; empty where they lie in no folder.
    """

    name: str
    module: str
    distribution: str
    version: str
    status: Status = "ok"
    reason: str = ""
    mend: str = ""
    seconds: float | None = None
    remarks: list[str] = field(default_factory=list)
    folder: str = ""

    @classmethod
    def of(cls, entry_point: EntryPoint) -> Plugin:
        """The plugin that an entry point names, before it is loaded."""
        found = getattr(entry_point, "dist", None)
        return cls(entry_point.name, entry_point.value, *_identity(found), folder=_folder(found))

    @property
    def qualified(self) -> str:
        return f"{self.distribution}/{self.name}"

    @property
    def usable(self) -> bool:
        """Whether its components can be chosen."""
        return self.status not in ("broken", "disabled")

    @property
    def complaint(self) -> str:
        """What ails it and what to do, where something does."""
        return f"plugin {self.qualified} is {self.status}: {self.reason}; {self.mend}"

    def owns(self, prefix: str) -> bool:
        """Whether what is called `prefix/component` may be this plugin's: its entry point or its distribution."""
        return prefix in (self.name, self.qualified) or normal(prefix) == normal(self.distribution)

    def answers_to(self, name: str) -> bool:
        """Whether `name` is this plugin's entry point, module or distribution."""
        return self.owns(name) or name in {self.module, self.module.partition(":")[0]} - {""}

    def mark(self, status: Status, reason: str, mend: str) -> None:
        self.status, self.reason, self.mend = status, reason, mend


def normal(distribution: str) -> str:
    """The one spelling of a distribution's name (PEP 503): `My_Plugin` and `my-plugin` are the same."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def discover() -> tuple[list[EntryPoint], list[Plugin]]:
    """The entry points of the group `playground`, and a broken plugin for each distribution that cannot be read."""
    try:
        found = importlib.metadata.entry_points(group=GROUP)
        return [one for one in found if not _is_remnant(one.dist)], []
    except Exception:
        # One distribution's unreadable file fails them all, so each is asked on its own.
        return _discover_one_by_one()


def _discover_one_by_one() -> tuple[list[EntryPoint], list[Plugin]]:
    found: list[EntryPoint] = []
    unreadable: list[Plugin] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        name, version = _identity(distribution)
        key = normal(name)
        # The first on the path hides others of its name, as it does for imports.
        if key in seen or _is_remnant(distribution):
            continue
        if name != UNKNOWN:
            seen.add(key)
        try:
            found += distribution.entry_points.select(group=GROUP)
        except Exception as error:
            plugin = Plugin(name, "", name, version, folder=_folder(distribution))
            reason = f"its entry points in {distribution.locate_file('')} cannot be read: {brief(error)}"
            plugin.mark("broken", reason, "reinstall the distribution, or remove it")
            unreadable.append(plugin)
    return found, unreadable


def _folder(distribution: Distribution | None) -> str:
    return str(getattr(distribution, "_path", ""))


def _is_remnant(distribution: Distribution | None) -> bool:
    """Whether it is what pip moved out of the way and, cut off, did not delete."""
    return Path(_folder(distribution)).name.startswith("~")


def _identity(distribution: Distribution | None) -> tuple[str, str]:
    """A distribution's name and version, as far as its metadata can be read."""
    try:
        if distribution is not None:
            return distribution.name or UNKNOWN, distribution.version or UNKNOWN
    except Exception:
        # Metadata that is missing or damaged does not keep a plugin from working.
        pass
    return UNKNOWN, UNKNOWN
