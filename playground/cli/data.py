"""`playground data`: the data sets, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from playground.cli.application import Application, common_options
from playground.cli.output import json_option, plugins_print_to_stderr, print_json, print_table
from playground.errors import RequestError, brief

if TYPE_CHECKING:
    from pathlib import Path

    from playground.components import Data


@click.group(invoke_without_command=True)
@common_options
@click.pass_context
def data(context: click.Context) -> None:
    """The data sets, and where they are."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@data.command("list")
@json_option
@common_options
@click.pass_obj
def list_(application: Application, as_json: bool) -> None:
    """List the data sets with where they lie on this machine, and where they come from."""
    rows = []
    for one in application.registry.of_kind("data"):
        component = cast("Data", one.component)
        state, path = whereabouts(component)
        rows.append(
            {
                "name": one.name,
                "summary": component.summary,
                "state": state,
                "path": None if path is None else str(path),
                "origin": component.origin,
            }
        )
    if as_json:
        print_json(rows)
    else:
        columns = ("name", "state", "path", "origin")
        print_table(columns, [tuple(row[key] or "" for key in columns) for row in rows])


@data.command()
@click.argument("name")
@common_options
@click.pass_obj
def path(application: Application, name: str) -> None:
    """Print the path of the data set NAME."""
    registration = application.registry.get("data", name)
    state, found = whereabouts(cast("Data", registration.component))
    if found is None:
        can = cast("Data", registration.component).fetch is not None
        brings = f"; 'playground data fetch {registration.name}' brings it here"
        hint = brings if can and state == "not here" else ""
        raise RequestError(f"data '{registration.name}' has no path: {state}{hint}")
    click.echo(found)


@data.command()
@click.argument("name")
@common_options
@click.pass_obj
def fetch(application: Application, name: str) -> None:
    """Bring the data set NAME to this machine, and print its path. What is here already is not downloaded."""
    registration = application.registry.get("data", name)
    component = cast("Data", registration.component)
    if component.fetch is None:
        state, found = whereabouts(component)
        if found is None:
            raise RequestError(f"data '{registration.name}' has nothing to fetch: {state}")
    else:
        with plugins_print_to_stderr(), registration.guard("cannot be fetched"):
            found = component.bring()
    click.echo(found)


def whereabouts(component: Data) -> tuple[str, Path | None]:
    """Whether the data is here, not here, or made when it is asked for; and its path."""
    if component.path is None:
        return "made, not read", None
    try:
        with plugins_print_to_stderr():
            found = component.locate()
        here = found is not None and found.exists()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"its plugin cannot say: {brief(error)}", None
    return ("here", found) if here else ("not here", None)
