"""All who are told of a run: its directory, the plugins' hooks, and whoever watches."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from typing import TYPE_CHECKING

from playground.errors import brief

if TYPE_CHECKING:
    from playground.engine.training import Record, Training
    from playground.registry import Registry
    from playground.runs.directory import RunDirectory
    from playground.runs.run import Run


class Observer:
    """Who watches a run; by default nobody, and notes become warnings."""

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
        warnings.warn(text, stacklevel=2)


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
        self._registry.notify("playground_evaluation", self.note, run=self._run, record=record)
        self._observer.record(self._run, record)

    def end(self) -> None:
        """The run has its final status: write what is left to write. What cannot be written becomes a note."""
        if self._directory is not None:
            try:
                self._write(self._directory)
            except OSError as error:
                self.note(f"the record of {self._run.name} is not complete: {brief(error)}")
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
        directory.close()
        if self._run.error is not None:
            directory.log("".join(traceback.format_exception(self._run.error)))
        try:
            directory.save("figure.svg", lambda path: self._run.figure().savefig(path, format="svg"))
        except Exception as error:
            # No figure is worth a run: a missing font, a broken matplotlibrc, a full disk.
            self.note(f"no figure was drawn: {brief(error)}")
        directory.summarise(self._run.summary())
