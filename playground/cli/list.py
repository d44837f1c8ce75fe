"""`playground list`: what can be chosen."""

from __future__ import annotations

import click

from playground.cli.application import Application, common_options
from playground.cli.kind import Kind
from playground.cli.output import json_option, note, print_json, print_table


@click.command("list")
@click.argument("kind", type=Kind(), required=False)
@json_option
@common_options
@click.pass_obj
def list_(application: Application, kind: str | None, as_json: bool) -> None:
    """List the components that can be chosen, all of them or those of one KIND.

    A plugin that cannot be used is listed with the reason and what to do about it.
    """
    registry = application.registry
    rows = [
        {
            "kind": one.kind,
            "name": one.name,
            "summary": one.component.summary,
            "plugin": one.plugin.name,
            "distribution": one.plugin.distribution,
            "version": one.plugin.version,
            "status": "clashing" if one.name != one.component.name else "ok",
        }
        for one in registry.components
        if kind in (None, one.kind)
    ]
    ailing = [plugin for plugin in registry.plugins if plugin.status != "ok"]
    if as_json:
        # A broken plugin has no components to list, so it stands for itself, under the kind "plugin".
        plugins = [
            {
                "kind": "plugin",
                "name": plugin.name,
                "summary": f"{plugin.reason}; {plugin.mend}",
                "plugin": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "status": plugin.status,
            }
            for plugin in ailing
        ]
        print_json(rows + plugins)
        return
    columns = ("kind", "name", "summary", "plugin", "distribution", "version")
    print_table(columns, [[row[column] for column in columns] for row in rows])
    for plugin in ailing:
        note(f"plugin {plugin.qualified} {plugin.version} is {plugin.status}: {plugin.reason}; {plugin.mend}")
