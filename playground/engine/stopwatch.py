"""A clock that can be paused, and read at any time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stopwatch:
    """Counts seconds while it runs; it is made standing still."""

    def __init__(self) -> None:
        self._counted = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """What has been counted so far."""
        return self._counted if self._since is None else self._counted + time.perf_counter() - self._since

    def start(self) -> None:
        """Run, from now on."""
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Stand still."""
        self._counted, self._since = self.seconds, None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still for a while, and then go on as before."""
        was_running = self._since is not None
        self.stop()
        try:
            yield
        finally:
            if was_running:
                self.start()
