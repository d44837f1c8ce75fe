"""A kind of component, as an argument of a command."""

from __future__ import annotations

from typing import Any

import click

from playground.cli.application import Application
from playground.components import KINDS
from playground.errors import did_you_mean


class Kind(click.Choice[str]):
    """One of the kinds; what is none of them gets a word of which was meant."""

    def __init__(self) -> None:
        super().__init__(list(KINDS))

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        if value in KINDS:
            return str(value)
        hint = did_you_mean(str(value), KINDS)
        application = context.find_object(Application) if context is not None else None
        if not hint and application is not None:
            # Who says a component's name alone means that component.
            meant = [one for one in application.registry.components if one.component.name == value]
            hint = f"; did you mean '{meant[0].kind} {meant[0].name}'?" if meant else ""
        hint = hint or f"; there are: {', '.join(KINDS)}"
        raise click.BadParameter(f"there is no kind '{value}'{hint}", context, parameter)
