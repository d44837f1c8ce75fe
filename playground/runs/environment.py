"""What a run depends on and does not control: versions, host, source, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playground.experiment import Experiment


def describe(experiment: Experiment) -> dict[str, Any]:
    """Versions of Python, torch, the project and every plugin used; host, git commit, command."""
    from playground import __version__
    from playground.components import KINDS

    plugins = {
        choice.provenance["distribution"]: choice.provenance["version"]
        for choice in (experiment[kind].registration for kind in KINDS)
    }
    return {
        "versions": {
            "python": platform.python_version(),
            "playground": __version__,
            "torch": importlib.metadata.version("torch"),
            **plugins,
        },
        "host": {"name": platform.node(), "system": platform.platform(), "cores": os.cpu_count()},
        "git": _git(),
        "command": shlex.join(sys.argv),
    }


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
