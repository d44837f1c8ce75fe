"""`playground install` and `playground uninstall`: pip in this interpreter, and what came and went by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from playground.cli.application import common_options
from playground.cli.output import note

if TYPE_CHECKING:
    from playground.distributions.changes import Change


@click.command()
@click.argument("requirements", metavar="[NAME|PATH|WHEEL]...", nargs=-1)
@click.option("-U", "--upgrade", is_flag=True, help="Install the newest version, also where there is one already.")
@click.option(
    "-r",
    "--requirement",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Install what a file lists, e.g. one that 'playground plugins freeze' wrote. Repeatable.",
)
@click.option(
    "-e",
    "--editable",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Install a folder as it lies, so that what is changed in it counts at once. Repeatable.",
)
@common_options
def install(requirements: tuple[str, ...], upgrade: bool, files: tuple[Path, ...], editable: tuple[Path, ...]) -> int:
    """Install plugins with pip, and say which components they bring.

    What playground itself needs stays at its versions: a plugin that wants others is refused by pip.
    """
    from playground.distributions import changes

    done = changes.install(requirements, files=files, editable=editable, upgrade=upgrade)
    for change in done.changes:
        _print(f"installed {change.distribution}", change)
    for other in done.others:
        note(f"{other} is installed, but it has no plugin for playground")
    if not done.changes and not done.others:
        note("nothing was installed: all of it is here already (-U installs newer versions)")
    return 1 if done.others and not done.changes else 0


@click.command()
@click.argument("name")
@common_options
def uninstall(name: str) -> None:
    """Remove the distribution of the plugin NAME with pip, and say which components went with it."""
    from playground.distributions import changes

    change = changes.uninstall(name)
    _print(f"removed {change.distribution}", change)


def _print(what: str, change: Change) -> None:
    none = "no components that can be used" if change.faults else "no components"
    click.echo(f"{what}: {', '.join(change.components) or none}")
    for fault in change.faults:
        note(fault)
