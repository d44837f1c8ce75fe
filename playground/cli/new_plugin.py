"""`playground new-plugin`: a distribution of one's own, to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from playground.cli.application import Application, common_options
from playground.cli.kind import Kind
from playground.cli.output import note
from playground.discovery import normal
from playground.errors import RequestError


@click.command("new-plugin")
@click.argument("name")
@click.option("--kind", type=Kind(), default="optimizer", show_default=True, help="What it provides.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    help="The folder in which its own folder is made.",
)
@common_options
@click.pass_obj
def new_plugin(application: Application, name: str, kind: str, out: Path) -> None:
    """Write the distribution playground-NAME with a component NAME that works, is checked and tested as written."""
    from playground.authoring.scaffold import PREFIX, write

    component = name.removeprefix(PREFIX)
    taken = [one for one in application.registry.of_kind(kind) if one.component.name == component]
    for one in taken:
        if normal(one.plugin.distribution) != normal(PREFIX + component):
            raise RequestError(
                f"{one.plugin.distribution} provides {kind} '{component}': choose another name for yours"
            )
    path = write(name, kind, out)
    click.echo(path)
    note(f"next: playground install -e {path} && playground check {kind} {component}")
