"""What a run depends on and does not control: versions, host, source, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playground.discovery import Plugin


def describe(plugins: Iterable[Plugin]) -> dict[str, Any]:
    """Versions of Python, torch, the project and the plugins that are loaded; host, git commit, command."""
    loaded = {one.distribution: one.version for one in plugins if one.status in ("ok", "clashing")}
    return {
        "versions": {
            **loaded,
            "python": platform.python_version(),
            "playground": __version__,
            "torch": importlib.metadata.version("torch"),
        },
        "host": {"name": platform.node(), "system": platform.platform(), "cores": os.cpu_count()},
        "git": _git(),
        "command": _command(),
    }


def _command() -> str:
    program = Path(sys.argv[0]).name
    # `python -m playground` shows as the path of a file that cannot be called so.
    return shlex.join(["playground" if program == "__main__.py" else program, *sys.argv[1:]])


def _git() -> dict[str, Any] | None:
    """The commit of the working directory and whether anything in it differs; None outside a repository."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
        status = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.stdout.strip(), "changed": bool(status.stdout.strip())}
