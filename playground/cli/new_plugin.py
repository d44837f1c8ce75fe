"""`playground new-plugin`: a distribution of one's own, to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from playground.cli.application import common_options
from playground.cli.output import note
from playground.components import KINDS


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="optimizer", show_default=True, help="What it provides."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    help="The folder in which its own folder is made.",
)
@common_options
def new_plugin(name: str, kind: str, out: Path) -> None:
    """Write the distribution playground-NAME with a component NAME that works, is checked and tested as written."""
    from playground.authoring.scaffold import PREFIX, write

    path = write(name, kind, out)
    component = name.removeprefix(PREFIX)
    click.echo(path)
    note(f"next: playground install -e {path} && playground check {kind} {component}")
