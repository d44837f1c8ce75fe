"""All who are told of a run: its directory, the plugins' hooks, and whoever watches."""

from __future__ import annotations

import contextlib
import logging
import traceback
from typing import TYPE_CHECKING

from playground.errors import brief

if TYPE_CHECKING:
    from collections.abc import Callable

    from playground.engine.training import Record, Training
    from playground.registry import Registry
    from playground.runs.directory import RunDirectory
    from playground.runs.run import Run


class Observer:
    """Who watches a run; by default nobody, and notes go to the log."""

    def start(self, run: Run, training: Training) -> None:
        """The run is about to take its first step."""

    def tick(self, samples: int) -> None:
        """So many rows have been seen; called about ten times a second."""

    def record(self, run: Run, record: Record) -> None:
        """An evaluation has been recorded."""

    def end(self, run: Run) -> None:
        """The run has ended."""

    def note(self, text: str) -> None:
        """Something that the user should know and that does not harm the run."""
        logging.getLogger("playground").warning(text)


class Journal:
    """Tells a run's story to everybody: first to the record on disk, then to the plugins, then to the watcher.

    directory: None where nothing is written.
    """

    def __init__(self, run: Run, directory: RunDirectory | None, registry: Registry, observer: Observer) -> None:
        self._run, self._directory, self._registry, self._observer = run, directory, registry, observer

    def start(self, training: Training) -> None:
        """The run is about to take its first step."""
        self._registry.notify("playground_run_start", self.note, run=self._run)
        self._observer.start(self._run, training)

    def record(self, record: Record) -> None:
        """An evaluation has been made."""
        self._run.history.append(record)
        if self._directory is not None:
            self._directory.append(record)
        self._registry.notify("playground_evaluation", self.note, run=self._run, record=dict(record))
        self._observer.record(self._run, record)

    def end(self) -> None:
        """The run has its final status: write what is left to write. What cannot be written becomes a note."""
        if self._directory is not None:
            self._write(self._directory)
        self._registry.notify("playground_run_end", self.note, run=self._run)
        self._observer.end(self._run)

    def note(self, text: str) -> None:
        """Something that the user should know and that does not harm the run."""
        self._observer.note(text)
        if self._directory is not None:
            # On a full disk the watcher at least has been told.
            with contextlib.suppress(OSError):
                self._directory.log(text)

    def _write(self, directory: RunDirectory) -> None:
        run = self._run
        # The figure last: it takes longest, and an interruption then costs nothing else.
        parts: dict[str, Callable[[], None]] = {
            "metrics.jsonl": directory.close,
            "summary.json": lambda: directory.summarise(run.summary()),
            "figure.svg": lambda: directory.save("figure.svg", run.draw),
        }
        if run.error is not None:
            failure = "".join(traceback.format_exception(run.error))
            parts = {"log.txt": lambda: directory.log(failure), **parts}
        for name, write in parts.items():
            try:
                write()
            except Exception as error:
                # Each for itself: a full disk or a broken matplotlibrc must not cost what can still be written.
                self.note(f"{name} of {run.name} could not be written: {brief(error)}")
