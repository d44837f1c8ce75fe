"""Downloads as people see them: a bar on a terminal, else a line when a file is here."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress


class Bar:
    """A bar of rich with the four names that pooch asks a progress bar for: total, update, reset, close."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        """How many bytes there will be; None where the server does not say."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, total: float) -> None:
        self._progress.update(self._task, total=total or None)

    def update(self, count: int) -> None:
        """So many more bytes are here."""
        self._progress.advance(self._task, count)

    def reset(self) -> None:
        """None are here; pooch then gives the total, since it has counted the last piece as a whole one."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Nothing to do: the bar is closed by `reporting`, also where the download fails."""


@contextlib.contextmanager
def reporting(name: str, host: str) -> Iterator[Bar | None]:
    """Show on stderr how a file is downloaded from a host. Gives the bar for pooch, None where there is none."""
    # None for a program without a console.
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield Bar(progress, name)
    else:
        yield None
        if sys.stderr is not None:
            print(f"fetched {name} from {host}", file=sys.stderr)
