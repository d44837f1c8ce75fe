"""What a distribution provides, asked of a child process: importing its plugins cannot harm who asks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PATIENCE = 60
"""Seconds that the plugins of one distribution have to be imported in."""


def provided(distribution: str) -> list[dict[str, Any]]:
    """For each plugin of an installed distribution its `name`, `status`, `reason` and `components` (`kind name`).

    Raises OSError or ValueError, with what went wrong, where the child ends badly or takes too long.
    """
    command = [sys.executable, "-P", "-m", "playground.distributions.inventory", distribution]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"importing takes more than {PATIENCE} s") from None
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise ValueError(f"importing ends the interpreter, with exit code {done.returncode}") from None
    return found


def _main(distribution: str) -> None:
    from playground.discovery import Plugin, discover
    from playground.distributions.installed import normal
    from playground.registry import Registry

    entry_points, _ = discover()
    own = [one for one in entry_points if normal(Plugin.of(one).distribution) == normal(distribution)]
    results, sys.stdout = sys.stdout, sys.stderr
    registry = Registry(entry_points=own)
    found = [
        {
            "name": plugin.name,
            "status": plugin.status,
            "reason": plugin.reason,
            "components": [f"{one.kind} {one.component.name}" for one in registry.provided_by(plugin)],
        }
        for plugin in registry.plugins
    ]
    print(json.dumps(found), file=results)


if __name__ == "__main__":
    _main(sys.argv[1])
