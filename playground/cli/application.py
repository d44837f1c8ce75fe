"""What one call of the command line holds, and the options that every command takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from playground.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass
class Application:
    """One call of the command line.

    debug: whether an error shows its traceback. disabled: plugins that are not to be imported.
    """

    debug: bool = False
    disabled: list[str] = field(default_factory=list)

    @cached_property
    def registry(self) -> Registry:
        """The plugins, found when they are first needed, so that `--help` needs none of them."""
        return Registry(disable=self.disabled)


def common_options(command: F) -> F:
    """`--no-plugin` and `--debug`, before the command's name or after it."""
    command = click.option(
        "--no-plugin",
        metavar="NAME",
        multiple=True,
        expose_value=False,
        callback=_disable,
        help="Leave a plugin out, by its name, module or distribution; it is not even imported. Repeatable.",
    )(command)
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_debug,
        help="Show the traceback of an error.",
    )(command)


def _disable(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> None:
    context.ensure_object(Application).disabled.extend(names)


def _debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Application).debug = True
