"""`playground show`: one component with its parameters."""

from __future__ import annotations

from typing import Any

import click

from playground.cli.application import Application, common_options
from playground.cli.data import whereabouts
from playground.cli.kind import Kind
from playground.cli.output import json_option, plugins_print_to_stderr, print_json, print_table
from playground.components import Backend, Component, Data, Model, Optimizer
from playground.expressions import format_value
from playground.parameters import REQUIRED, with_help


@click.command()
@click.argument("kind", type=Kind())
@click.argument("name")
@json_option
@common_options
@click.pass_obj
def show(application: Application, kind: str, name: str, as_json: bool) -> None:
    """Show the component NAME of a KIND: its parameters with types and defaults, where it comes from."""
    registration = application.registry.get(kind, name)
    component, plugin = registration.component, registration.plugin
    with plugins_print_to_stderr():
        parameters = with_help(registration.parameters, registration.factory)
        particulars = _particulars(component)
    facts = {
        "kind": kind,
        "name": registration.name,
        "summary": component.summary,
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "factory": component.source,
        **particulars,
    }
    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "type": one.type,
            "default": None if one.default is REQUIRED else one.default,
            "required": one.default is REQUIRED,
            "help": one.help,
        }
        for one in parameters.values()
    ]
    # Which value these have where nobody says one, only the factory knows.
    rows += [
        {"name": one.name, "type": one.type, "default": None, "required": False, "help": one.help}
        for one in parameters.further.values()
    ]
    if as_json:
        print_json({**facts, "parameters": rows})
        return
    for key, value in facts.items():
        if value not in ("", None):
            click.echo(f"{key:14}{format_value(value) if isinstance(value, bool) else value}")
    click.echo()
    if not rows:
        click.echo("It has no parameters.")
        return
    print_table(
        ("parameter", "type", "default", "help"),
        [(row["name"], row["type"], _default(row, row["name"] in parameters.further), row["help"]) for row in rows],
    )


def _default(row: dict[str, Any], further: bool) -> str:
    if row["required"]:
        return "(needed)"
    return "(its own)" if further else format_value(row["default"])


def _particulars(component: Component) -> dict[str, Any]:
    """What only components of this kind have."""
    match component:
        case Data():
            state, path = whereabouts(component)
            settings = ", ".join(f"{key}={value}" for key, value in component.settings.items())
            return {
                "origin": component.origin,
                "state": state,
                "path": None if path is None else str(path),
                "settings": settings,
            }
        case Model():
            return {"affine": component.affine}
        case Optimizer():
            return {"closure": component.closure}
        case Backend():
            return {"exact": component.exact}
    return {}
