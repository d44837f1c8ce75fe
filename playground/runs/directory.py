"""A run's directory: the truth about a run.

<UTC time>-<6 hex>/
  run.json        written once, before the first step
  metrics.jsonl   a line for each record, appended and handed to the system as it is made
  summary.json    how it ended; written to a temporary file and renamed
  figure.svg      the curve
  log.txt         notes, and the traceback of a failure
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from playground.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class RunDirectory:
    """The only writer of a run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Unbuffered: what has been written has left the process, and nothing is kept back that could fail later.
        self._metrics = (path / "metrics.jsonl").open("ab", buffering=0)

    @classmethod
    def create(cls, root: Path, facts: Mapping[str, Any]) -> RunDirectory:
        """Claim a new directory under `root` and write run.json.

        Raises RequestError, leaving nothing behind, where that cannot be done.
        """
        path: Path | None = None
        made: list[Path] = []
        try:
            # Absolute, since a model or a plugin may change the working directory.
            place = root.absolute()
            made = [one for one in (place, *place.parents) if not one.exists()]
            place.mkdir(parents=True, exist_ok=True)
            path = claim(place)
            write_json(path / "run.json", {"name": path.name, "created": now(), **facts})
            return cls(path)
        except (OSError, ValueError) as error:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)
            for one in made:
                # Not where another run has moved in meanwhile.
                with contextlib.suppress(OSError):
                    one.rmdir()
            reason = error.strerror if isinstance(error, OSError) else error
            raise RequestError(f"cannot make a run in '{root}': {reason}; choose another place with --out") from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl; when this returns the line has left the process."""
        line = (json.dumps(finite(record), allow_nan=False) + "\n").encode()
        size = self._metrics.tell()
        try:
            while line:
                line = line[self._metrics.write(line) :]
        except OSError:
            # A disk that is full takes a part of the line; the record ends with the last whole one.
            with contextlib.suppress(OSError):
                self._metrics.truncate(size)
            raise

    def summarise(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json whole or not at all."""
        write_json(self.path / "summary.json", summary)

    def save(self, name: str, write: Callable[[Path], None]) -> None:
        """Let `write` make a file under a temporary name, and rename it."""
        temporary = self.path / f".{name}"
        try:
            write(temporary)
            temporary.replace(self.path / name)
        finally:
            temporary.unlink(missing_ok=True)

    def log(self, text: str) -> None:
        """Add to log.txt."""
        with (self.path / "log.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{now()} {text.rstrip()}\n")

    def close(self) -> None:
        """Put the records onto the disk, not only into the system's memory."""
        if not self._metrics.closed:
            with self._metrics:
                os.fsync(self._metrics.fileno())


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def finite(value: Any) -> Any:
    """A nest with None for numbers that are not finite, which JSON cannot say."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def claim(root: Path, prefix: str = "") -> Path:
    """Make a directory under `root` that nobody else has: `prefix`, the UTC time, six hexadecimal digits."""
    while True:
        path = root / f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            # Making the directory is what claims the name: of two runs that want it, one makes it and one tries again.
            path.mkdir()
        except FileExistsError:
            continue
        return path


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all; a number that is not finite is null."""
    text = json.dumps(finite(value), indent=2, allow_nan=False, default=str) + "\n"
    temporary = path.with_name(f".{path.name}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
