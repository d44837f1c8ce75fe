"""The process's stdout, kept for results."""

from __future__ import annotations

import contextlib
import os
import sys


def keep_stdout_for_results() -> bool:
    """From here on only what goes through `sys.stdout` gets to stdout, in a process that ends with the command.

    What reaches file descriptor 1 past it, from a library or a child process of a plugin's, goes to stderr.
    Gives whether it was so arranged: not where stdout is none of the process's own.
    """
    stdout = sys.stdout
    # In a notebook or a test stdout is no file descriptor, and a closed one needs no protection.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if stdout.fileno() == 1:
            stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            buffering = 1 if stdout.isatty() else -1
            sys.stdout = os.fdopen(kept, "w", buffering, encoding=stdout.encoding, errors=stdout.errors)
            return True
    return False
