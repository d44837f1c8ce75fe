"""All who are told of a run: its directory, the plugins' hooks, and whoever watches."""

from __future__ import annotations

import contextlib
import copy
import logging
import traceback
from dataclasses import replace
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


class Muted(Observer):
    """An observer that is no longer told anything once it has failed: a closed pipe must not cost a run."""

    def __init__(self, observer: Observer) -> None:
        self._observer: Observer | None = observer

    def start(self, run: Run, training: Training) -> None:
        self._tell("start", run, training)

    def tick(self, samples: int) -> None:
        self._tell("tick", samples)

    def record(self, run: Run, record: Record) -> None:
        self._tell("record", run, record)

    def end(self, run: Run) -> None:
        self._tell("end", run)

    def note(self, text: str) -> None:
        self._tell("note", text)

    def _tell(self, what: str, *arguments: object) -> None:
        if self._observer is not None:
            try:
                getattr(self._observer, what)(*arguments)
            except Exception:
                self._observer = None


class Journal:
    """Tells a run's story to everybody: first to the record on disk, then to the plugins, then to the watcher.

    directory: None where nothing is written. Plugins get a view of the run: what they do to it
    does not reach the record.
    """

    def __init__(self, run: Run, directory: RunDirectory | None, registry: Registry, observer: Observer) -> None:
        self._run, self._directory, self._registry, self._observer = run, directory, registry, observer
        self._shown: list[Record] = []
        self._left: list[tuple[str, Callable[[], None]]] = []

    def start(self, training: Training) -> None:
        """The run is about to take its first step."""
        self._notify("playground_run_start")
        self._observer.start(self._run, training)

    def record(self, record: Record) -> None:
        """An evaluation has been made."""
        if self._directory is not None:
            self._directory.append(record)
        self._run.history.append(record)
        self._shown.append(dict(record))
        self._notify("playground_evaluation", record=dict(record))
        self._observer.record(self._run, record)

    def end(self) -> None:
        """The run has its final status: write what is left to write. What cannot be written becomes a note.

        Where Ctrl-C breaks in, calling it once more goes on with what is left.
        """
        run, directory = self._run, self._directory
        if not self._left:
            self._left = [
                ("its plugins", lambda: self._notify("playground_run_end")),
                ("its observer", lambda: self._observer.end(run)),
            ]
            if directory is not None:
                # The figure last of the files: it takes longest, and an interruption then costs nothing else.
                self._left[:0] = [
                    ("log.txt", lambda: self._log_failure(directory)),
                    ("summary.json", lambda: directory.summarise(run.summary())),
                    ("metrics.jsonl", directory.close),
                    ("figure.svg", lambda: directory.save("figure.svg", run.draw)),
                ]
        while self._left:
            name, finish = self._left[0]
            try:
                finish()
            except (Exception, KeyboardInterrupt) as error:
                # Each for itself: a full disk or a broken matplotlibrc must not cost what can still be written.
                self.note(f"{name} of {run.name} could not be written: {brief(error)}")
                if name == "summary.json" and run.error is None:
                    run.status, run.error = "failed", error
            self._left.pop(0)

    def note(self, text: str) -> None:
        """Something that the user should know and that does not harm the run."""
        self._observer.note(text)
        if self._directory is not None:
            # On a full disk the watcher at least has been told.
            with contextlib.suppress(OSError):
                self._directory.log(text)

    def _notify(self, hook: str, **arguments: object) -> None:
        run = self._run
        view = replace(
            run,
            history=self._shown,
            notes=list(run.notes),
            shapes=list(run.shapes),
            timed=copy.deepcopy(run.timed),
            parameters=copy.deepcopy(run.parameters),
        )
        self._registry.notify(hook, self.note, run=view, **arguments)

    def _log_failure(self, directory: RunDirectory) -> None:
        if self._run.error is not None:
            directory.log("".join(traceback.format_exception(self._run.error)))
