"""`playground check`: what a component promises, looked at."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import click

from playground.cli.application import Application, common_options
from playground.cli.kind import Kind
from playground.cli.output import json_option, note, plugins_print_to_stderr, print_json, print_table
from playground.errors import RequestError

if TYPE_CHECKING:
    from playground.conformance import Report
    from playground.registry import Registry


@click.command()
@click.argument("kind", type=Kind(), required=False)
@click.argument("name", metavar="[EXPR]", required=False)
@click.option("--plugin", metavar="NAME", help="Check every component of a plugin, in place of KIND and EXPR.")
@json_option
@common_options
@click.pass_obj
def check(application: Application, kind: str | None, name: str | None, plugin: str | None, as_json: bool) -> int:
    """Check a component: the component EXPR (NAME or NAME:KEY=VALUE) of a KIND, or all those of a plugin.

    Each check passes, fails with its evidence, or is not applicable and says why. Ends with 1 where one fails.
    """
    registry = application.registry
    wanted = _wanted(registry, kind, name, plugin)
    # A misspelt name need not wait for torch.
    for one_kind, expression in wanted:
        registry.get(one_kind, expression.partition(":")[0])
    with plugins_print_to_stderr():
        from playground.conformance import check as check_component

        reports = []
        for one_kind, expression in wanted:
            if len(wanted) > 1:
                note(f"checking {one_kind} {expression}")
            reports.append(check_component(one_kind, expression, registry))
    if as_json:
        print_json([report.to_dict() for report in reports])
    else:
        for report in reports:
            _print(report, application.debug)
    return 0 if all(report.passed for report in reports) else 1


def _wanted(registry: Registry, kind: str | None, name: str | None, plugin: str | None) -> list[tuple[str, str]]:
    """The kinds and expressions of what is to be checked. Raises RequestError."""
    if plugin is None:
        if kind is None or name is None:
            raise RequestError("say what to check: KIND and NAME, such as 'optimizer adam', or --plugin NAME")
        return [(kind, name)]
    if kind is not None:
        raise RequestError("say KIND and NAME or --plugin NAME, not both")
    plugins = registry.named(plugin)
    for one in plugins:
        if not one.usable:
            raise RequestError(one.complaint)
    found = [(one.kind, one.name) for owner in plugins for one in registry.provided_by(owner)]
    if not found:
        raise RequestError(f"the plugin '{plugin}' provides no components")
    return found


def _print(report: Report, debug: bool) -> None:
    registration = report.choice.registration
    click.echo(
        f"{registration.kind} {report.choice} (plugin {registration.plugin.qualified} {registration.plugin.version})"
    )
    print_table(
        ("verdict", "check", "evidence"),
        [(outcome.verdict, outcome.check.name, outcome.evidence) for outcome in report.outcomes],
    )
    failed = [outcome for outcome in report.outcomes if outcome.verdict == "fail"]
    for outcome in failed:
        click.echo(f"{outcome.check.name} asks for: {outcome.check.demand}")
    if debug:
        for outcome in failed:
            traceback.print_exception(outcome.error)
    counts = dict.fromkeys(("pass", "fail", "n/a"), 0)
    for outcome in report.outcomes:
        counts[outcome.verdict] += 1
    click.echo(f"{counts['pass']} passed, {counts['fail']} failed, {counts['n/a']} not applicable")
