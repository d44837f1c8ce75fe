"""Tables and JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

UNCUT = 10_000
"""A width that no row reaches, for output that a program reads."""


def json_option(command: F) -> F:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def print_json(value: Any) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: in colour and folded to the width on a terminal, plain and a line a row elsewhere."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))
    if console.is_terminal:
        console.print(table)
        return
    console.width = UNCUT
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def note(text: str) -> None:
    """A line for the user that is no result."""
    click.echo(text, err=True)
