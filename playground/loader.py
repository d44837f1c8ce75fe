"""Loading plugins under a guard: what each provides, or why it cannot be used and what to do about it."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pluggy

from playground import hookspecs
from playground.components import KINDS, Component
from playground.errors import brief, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from playground.discovery import Plugin

SLOW = 0.5
"""Seconds of importing that everybody who calls the tool notices."""

HOOKS = {kind: f"playground_{kind}" if kind == "data" else f"playground_{kind}s" for kind in KINDS}


class Loader:
    """Loads plugins one by one, and calls their hooks.

    Each has a pluggy manager to itself, since a call of everybody would stop at the first who raises. Whatever
    a plugin raises is caught, SystemExit and its like too; only Ctrl-C is the user's own.
    """

    def __init__(self) -> None:
        self._loaded: list[tuple[Plugin, pluggy.PluginManager]] = []

    def load(self, entry_point: EntryPoint, plugin: Plugin) -> list[Component]:
        """The components that the plugin provides; none, and the plugin marked as broken, where it cannot be used."""
        mend = f"its author must change it; until then: --no-plugin {plugin.name}"
        try:
            with self._observed(plugin):
                try:
                    implementation = entry_point.load()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    mend = f"repair or reinstall it, or remove it: playground uninstall {plugin.distribution}"
                    raise _UnusableError(f"import failed: {brief(error)}") from error
                return self._register(implementation, plugin)
        except KeyboardInterrupt as interrupt:
            # Of the user's, who may wonder what takes so long; or the plugin's own.
            said = f"while the plugin {plugin.qualified} was loaded; to go without: --no-plugin {plugin.name}"
            raise KeyboardInterrupt(said) from interrupt
        except _UnusableError as error:
            plugin.mark("broken", str(error), mend)
            return []

    def notify(self, hook: str, report: Callable[[str], None], arguments: dict[str, Any]) -> None:
        """Call a hook of the run's life on every plugin; what one raises goes to `report`, and the rest are called."""
        for plugin, manager in self._loaded:
            try:
                getattr(manager.hook, hook)(**arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                report(f"plugin {plugin.qualified} failed in {hook}: {brief(error)}")

    @contextlib.contextmanager
    def _observed(self, plugin: Plugin) -> Iterator[None]:
        """While it is open, look at what importing the plugin costs, and keep what it prints out of results."""
        light = "torch" not in sys.modules
        # What a plugin prints while it is imported must not end up in the middle of somebody's JSON.
        printed = _Overheard()
        started = time.perf_counter()
        try:
            with contextlib.redirect_stdout(printed):
                yield
        finally:
            plugin.seconds = time.perf_counter() - started
            if plugin.seconds > SLOW:
                plugin.remarks.append(f"takes {plugin.seconds:.1f} s to import")
            if light and "torch" in sys.modules:
                plugin.remarks.append("imports torch to be listed; a reference 'module:attribute' would spare that")
            if printed.anything:
                plugin.remarks.append("prints while it is imported")

    def _register(self, implementation: object, plugin: Plugin) -> list[Component]:
        for other, loaded in self._loaded:
            if any(one is implementation for _, one in loaded.list_name_plugin()):
                raise _UnusableError(f"points to the same module as the plugin {other.qualified}")
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        try:
            manager.register(implementation, plugin.qualified)
            if not manager.get_hookcallers(implementation):
                raise _UnusableError("implements no hook: its functions must be marked with @playground.hookimpl")
            manager.check_pending()
            for caller in manager.get_hookcallers(implementation) or ():
                if any(one.wrapper or one.hookwrapper for one in caller.get_hookimpls()):
                    raise _UnusableError(f"{caller.name} is a wrapper, and there is nothing for it to wrap")
            components = [component for kind in KINDS for component in _provided(kind, manager)]
        except (_UnusableError, KeyboardInterrupt):
            raise
        except pluggy.PluginValidationError as error:
            raise _UnusableError(f"does not fit the hooks: {_explained(error)}") from error
        except BaseException as error:
            raise _UnusableError(f"registration failed: {brief(error)}") from error
        self._loaded.append((plugin, manager))
        return components


class _Overheard:
    """Stands for stdout: hands all on to stderr, and remembers whether anything was written."""

    anything = False

    def write(self, text: str) -> int:
        self.anything = self.anything or bool(text)
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


class _UnusableError(Exception):
    """A plugin cannot be used; the message is the reason that its row shows."""


def _provided(kind: str, manager: pluggy.PluginManager) -> list[Component]:
    wanted, hook = KINDS[kind], HOOKS[kind]
    components: list[Component] = []
    for items in _listed(hook, manager):
        for item in items:
            if not isinstance(item, wanted) or item.kind != kind:
                raise _UnusableError(f"{hook} listed a {type(item).__name__}, not a {wanted.__name__}")
            if any(item.name == other.name for other in components):
                raise _UnusableError(f"{hook} listed two {kind} components named '{item.name}'")
            components.append(item)
    return components


def _listed(hook: str, manager: pluggy.PluginManager) -> list[list[Any]]:
    caller = getattr(manager.hook, hook)
    try:
        answers = caller()
        # pluggy leaves out an answer that is None.
        if caller.get_hookimpls() and not answers:
            raise _UnusableError(f"{hook} returned a NoneType, not a list of components")
        for answer in answers:
            if isinstance(answer, str | Component) or not isinstance(answer, Iterable):
                raise _UnusableError(f"{hook} returned a {type(answer).__name__}, not a list of components")
        return [list(answer) for answer in answers]
    except (_UnusableError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _UnusableError(f"{hook} raised {brief(error)}") from error


def _explained(error: pluggy.PluginValidationError) -> str:
    """pluggy's complaint, with the hook that was probably meant."""
    message = " ".join(str(error).split())
    known = [name for name in vars(hookspecs) if name.startswith("playground_")]
    if unknown := re.match(r"unknown hook '(playground_\w+)'", message):
        return f"there is no hook '{unknown[1]}'{did_you_mean(unknown[1], known)}"
    return message
