"""Where each component comes from, and look-up by name.

Plugins are found by their entry points in the group `playground`. Each is loaded on its own under a guard: one that
cannot be used becomes a row with its reason and its mend, and everything else works.
"""

from __future__ import annotations

import contextlib
import copy
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from playground import config
from playground.components import KINDS, Component, resolve
from playground.discovery import Plugin, discover
from playground.errors import ComponentError, PlaygroundError, RequestError, brief, did_you_mean
from playground.loader import Loader
from playground.parameters import Parameters, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.metadata import EntryPoint

DISABLE = "PLAYGROUND_DISABLE_PLUGINS"
HOME = "optim-playground"
"""The distribution that this project is."""


@dataclass(frozen=True)
class Registration:
    """A component, and the plugin that provides it."""

    component: Component
    plugin: Plugin
    name: str
    """What the user types: the component's own name; qualified where several plugins provide it."""

    @property
    def kind(self) -> str:
        return self.component.kind

    @property
    def provenance(self) -> dict[str, str]:
        """The component's name, plugin, distribution and version, as a run records them."""
        return {
            "name": self.component.name,
            "plugin": self.plugin.name,
            "distribution": self.plugin.distribution,
            "version": self.plugin.version,
        }

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}' (plugin {self.plugin.qualified} {self.plugin.version})"

    @cached_property
    def factory(self) -> Callable[..., Any]:
        """The factory, imported. Raises ComponentError."""
        with self.guard("cannot be loaded"):
            return resolve(self.component.factory)

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters of the factory, with the component's defaults. Raises ComponentError."""
        factory = self.factory
        with self.guard("has parameters that cannot be read"):
            return parameters_of(factory, self.component.leading, self.component.defaults)

    def build(self, /, *leading: Any, **parameters: Any) -> Any:
        """Call the factory with the component's defaults and these parameters.

        Raises ComponentError, which names the component, its plugin and the cause, where the factory raises.
        """
        defaults = {name: self.parameters[name].default for name in self.component.defaults}
        with self.guard("cannot be built"):
            # A copy, since a factory may keep or change the list that it is given.
            return self.factory(*leading, **copy.deepcopy({**defaults, **parameters}))

    def has(self, trait: str) -> bool:
        """Whether the component says that it has a trait of its kind: `affine`, `closure`, `exact`."""
        return bool(getattr(self.component, trait))

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Turn what the component's code raises into a ComponentError that names it: `<component> <what>: <cause>`."""
        try:
            yield
        except (PlaygroundError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ComponentError(f"{self} {what}: {brief(error)}") from error


class Registry:
    """The plugins of this interpreter and their components. Made per application, never a global.

    plugins: every plugin, usable or not, by name.
    components: the components of the usable ones, by kind and name.
    """

    def __init__(self, *, disable: Iterable[str] = (), entry_points: Iterable[EntryPoint] | None = None) -> None:
        """Find and load the plugins.

        disable: names of plugins (entry point, module or distribution) that are not even imported; those that the
            environment variable PLAYGROUND_DISABLE_PLUGINS and the user's config file list are added.
        entry_points: the entry points to load; by default those that the installed distributions declare.
        Raises RequestError where `disable` names no plugin, or the config file is not right.
        """
        entry_points, unreadable = discover() if entry_points is None else (entry_points, [])
        found = [(entry, Plugin.of(entry)) for entry in sorted(entry_points, key=lambda one: (one.name, one.value))]
        self.plugins = [plugin for _, plugin in found] + unreadable
        disabled = self._disabled(list(disable))
        self._loader = Loader()
        provided: list[tuple[Component, Plugin]] = []
        for entry_point, plugin in found:
            by = next((by for name, by in disabled if plugin.answers_to(name)), None)
            if by is not None:
                plugin.mark("disabled", f"disabled by {by}", "take it out of there to use it")
            else:
                provided += [(component, plugin) for component in self._loader.load(entry_point, plugin)]
        self.components = sorted(
            (Registration(component, plugin, _spoken(component, plugin, provided)) for component, plugin in provided),
            key=lambda one: (list(KINDS).index(one.kind), one.component.name, one.plugin.qualified),
        )
        self._mark_clashes()

    def named(self, name: str) -> list[Plugin]:
        """The plugins that an entry point, module or distribution means. Raises RequestError where it means none."""
        found = [plugin for plugin in self.plugins if plugin.answers_to(name)]
        if not found:
            names = [plugin.name for plugin in self.plugins]
            hint = did_you_mean(name, names) or f"; there are: {', '.join(names) or 'none'}"
            raise RequestError(f"there is no plugin '{name}'{hint}")
        return found

    def provided_by(self, plugin: Plugin) -> list[Registration]:
        """The components of a plugin, by kind and name."""
        return [one for one in self.components if one.plugin is plugin]

    def of_kind(self, kind: str) -> list[Registration]:
        """The components of a kind, by name."""
        return [one for one in self.components if one.kind == kind]

    def get(self, kind: str, name: str) -> Registration:
        """The component of that kind with that name, bare or qualified (`distribution/name` or `plugin/name`).

        Raises RequestError where there is none (with a suggestion) or where the name is ambiguous (with all that
        it could mean).
        """
        owner, _, bare = name.rpartition("/")
        matches = [
            one for one in self.of_kind(kind) if one.component.name == bare and (not owner or one.plugin.owns(owner))
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            meant = " or ".join(f"'{one.name}'" for one in matches)
            raise RequestError(f"{kind} '{name}' is provided by {len(matches)} plugins: say {meant}")
        unusable = [plugin for plugin in self.plugins if not plugin.usable]
        for plugin in unusable:
            # It is this one's, by all appearance, and no misspelling.
            alone = not any(other.usable for other in self.plugins if other.distribution == plugin.distribution)
            if (owner or bare) in (plugin.name, plugin.qualified) or (alone and plugin.owns(owner or bare)):
                raise RequestError(f"no {kind} '{name}': {plugin.complaint}")
        names = [one.name for one in self.of_kind(kind)]
        hint = did_you_mean(name, names) or did_you_mean(bare, names) or f"; there are: {', '.join(names) or 'none'}"
        said = ", ".join(f"{plugin.name} is {plugin.status}" for plugin in unusable)
        note = f" ({said}; 'playground plugins' says why)" if unusable else ""
        raise RequestError(f"unknown {kind} '{name}'{hint}{note}")

    def meant_by(self, plugin: Plugin, kind: str, name: str) -> str:
        """The name under which `get` finds what a plugin itself calls `name`.

        What its own distribution provides, else what comes with the project, else what anybody provides: somebody
        else's component of the same name must not change, or break, what its author wrote.
        """
        namesakes = [one for one in self.of_kind(kind) if one.component.name == name]
        for home in (plugin.distribution, HOME):
            found = [one for one in namesakes if one.plugin.distribution == home]
            if found:
                return found[0].name if len(found) == 1 else name
        return name

    def default(self, kind: str) -> Registration:
        """The component that a run takes where none of this kind is asked for.

        That of the project's own plugins, where they offer one. Raises RequestError where no plugin, or more than one,
        offers one.
        """
        offers = [one for one in self.of_kind(kind) if one.component.default]
        # A stranger's offer must not change, or break, what people are used to.
        offers = [one for one in offers if one.plugin.distribution == HOME] or offers
        if len(offers) == 1:
            return offers[0]
        names = ", ".join(one.name for one in offers)
        found = f"several are offered as the default: {names}" if offers else "none is offered as the default"
        raise RequestError(f"no {kind} was chosen, and {found}; choose one with --{kind}")

    def notify(self, hook: str, report: Callable[[str], None], **arguments: Any) -> None:
        """Call a hook of the run's life on every plugin; what one raises goes to `report`, and the rest are called."""
        self._loader.notify(hook, report, arguments)

    def _disabled(self, asked: list[str]) -> list[tuple[str, str]]:
        """The names of plugins that are not to be imported, each with who says so."""
        for name in asked:
            self.named(name)
        # The environment and the file outlive a plugin that was uninstalled, so a name there may fit nothing.
        around = [name.strip() for name in os.environ.get(DISABLE, "").split(",") if name.strip()]
        return [
            *((name, "request (--no-plugin)") for name in asked),
            *((name, f"${DISABLE}") for name in around),
            *((name, str(config.path())) for name in config.disabled()),
        ]

    def _mark_clashes(self) -> None:
        for plugin in self.plugins:
            namesakes = [
                other
                for other in self.plugins
                if other is not plugin and other.name == plugin.name and other.status != "disabled"
            ]
            if namesakes and plugin.status == "ok":
                owners = ", ".join(other.distribution for other in namesakes)
                plugin.mark(
                    "clashing",
                    f"the entry point '{plugin.name}' of {plugin.distribution} is also declared by {owners}",
                    f"uninstall one, or disable one by its distribution: --no-plugin {namesakes[0].qualified}",
                )
        for one in self.components:
            rivals = [
                other.plugin.qualified
                for other in self.of_kind(one.kind)
                if other is not one and other.component.name == one.component.name
            ]
            if rivals and one.plugin.status == "ok":
                # Without the project's own nobody could do much.
                strangers = [name for name in (one.plugin.qualified, *rivals) if not name.startswith(f"{HOME}/")]
                one.plugin.mark(
                    "clashing",
                    f"{one.kind} '{one.component.name}' is also provided by {', '.join(rivals)}",
                    f"say '{one.name}', or disable one: --no-plugin {(strangers or rivals)[0]}",
                )


def _spoken(component: Component, plugin: Plugin, provided: list[tuple[Component, Plugin]]) -> str:
    """The shortest name that means this component alone."""
    owners = [owner for other, owner in provided if (other.kind, other.name) == (component.kind, component.name)]
    if len(owners) == 1:
        return component.name
    for owner in _owners(plugin):
        if sum(owner in _owners(other) for other in owners) == 1:
            break
    return f"{owner}/{component.name}"


def _owners(plugin: Plugin) -> tuple[str, str, str]:
    """What can stand before a component's name, from the shortest on."""
    return plugin.distribution, plugin.name, plugin.qualified
