"""`playground plugins`: every plugin with its health, and all of them as a file that installs them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from playground.cli.application import Application, common_options
from playground.cli.output import json_option, note, print_json, print_table

if TYPE_CHECKING:
    from playground.discovery import Plugin
    from playground.registry import Registry


@click.group(invoke_without_command=True)
@json_option
@common_options
@click.pass_context
def plugins(context: click.Context, as_json: bool) -> None:
    """List every plugin: where it comes from, what it provides, whether it can be used, and what importing it takes."""
    if context.invoked_subcommand is not None:
        return
    registry = context.ensure_object(Application).registry
    rows = [_row(registry, plugin) for plugin in registry.plugins]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("plugin", "distribution", "version", "status", "import", "provides"),
        [
            (
                row["name"],
                row["distribution"],
                row["version"],
                row["status"],
                "-" if row["import_seconds"] is None else f"{1e3 * row['import_seconds']:.0f} ms",
                ", ".join(row["provides"]),
            )
            for row in rows
        ],
    )
    for plugin in registry.plugins:
        if plugin.status != "ok":
            note(plugin.complaint)
        for remark in plugin.remarks:
            note(f"plugin {plugin.qualified} {remark}")


@plugins.command()
@common_options
def freeze() -> None:
    """Print the installed plugins as requirements, for `playground install -r FILE` on another machine."""
    from playground.distributions.freeze import freeze as lines

    for name, line in lines().items():
        click.echo(line)
        if "file:" in line:
            note(f"{name} was installed from a file or folder, which another machine may not have")


def _row(registry: Registry, plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "module": plugin.module,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "reason": plugin.reason,
        "mend": plugin.mend,
        "remarks": plugin.remarks,
        "import_seconds": plugin.seconds,
        "provides": [f"{one.kind} {one.name}" for one in registry.provided_by(plugin)],
    }
