"""Tables and JSON on stdout, notes on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from playground.runs.directory import finite

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
    """One JSON document; a number that is not finite, which JSON cannot say, is null."""
    click.echo(printable(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False, default=str)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: in colour and folded to the width on a terminal, plain and a line a row elsewhere."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    if console.is_terminal:
        console.print(table)
        return
    console.width = UNCUT
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def plugins_print_to_stderr() -> contextlib.AbstractContextManager[Any]:
    """While plugins' code runs: what it prints must not end up in the middle of a result."""
    return contextlib.redirect_stdout(sys.stderr)


def note(text: str) -> None:
    """A line for the user that is no result."""
    click.echo(printable(text), err=True)


def printable(text: str) -> str:
    """The text with escapes for what no encoding can say (lone surrogates); in JSON they mean the same."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
