"""What a distribution provides, asked of a child process: importing its plugins cannot harm who asks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PATIENCE = 60
"""Seconds that the plugins of one distribution have to be imported in."""


def provided(distribution: str) -> list[dict[str, Any]]:
    """What each plugin of an installed distribution is: its `name`, `status`, `complaint` and `components`.

    A component is written as `kind name`.

    Raises OSError or ValueError, with what went wrong, where the child ends badly or takes too long.
    """
    command = [sys.executable, "-P", "-m", "playground.distributions.inventory", distribution]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"importing it takes more than {PATIENCE} s") from None
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise ValueError(f"importing it ends the interpreter, with exit code {done.returncode}") from None
    return found


def _main(distribution: str) -> None:
    from playground.discovery import Plugin, discover, normal
    from playground.registry import HOME, Registry
    from playground.streams import keep_stdout_for_results

    keep_stdout_for_results()
    entry_points, _ = discover()
    # Beside the project's own, so that components of one name are seen to clash with those that everybody has.
    wanted = {normal(distribution), HOME}
    registry = Registry(entry_points=[one for one in entry_points if normal(Plugin.of(one).distribution) in wanted])
    found = [
        {
            "name": plugin.name,
            "status": plugin.status,
            "complaint": plugin.complaint if plugin.status != "ok" else "",
            "components": [f"{one.kind} {one.component.name}" for one in registry.provided_by(plugin)],
        }
        for plugin in registry.plugins
        if normal(plugin.distribution) == normal(distribution)
    ]
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
