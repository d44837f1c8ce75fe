"""A machine full of bad plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BROKEN = "raise RuntimeError('no such luck')"

SLOW = """
import time
from playground import Optimizer, hookimpl

time.sleep(5)

@hookimpl
def playground_optimizers():
    return [Optimizer("sluggish", "torch.optim:SGD", defaults={"lr": 0.1})]
"""

NOISY = """
import os, subprocess, sys
from playground import Optimizer, hookimpl

print("hello from print")
os.write(1, b"hello from descriptor 1\\n")
subprocess.run([sys.executable, "-c", "print('hello from a child')"])
sys.stdout.write("hello from write\\n")
sys.stdout.flush()

@hookimpl
def playground_optimizers():
    print("hello from a hook")
    return [Optimizer("noisy", "torch.optim:SGD", defaults={"lr": 0.1})]
"""

RIVAL = """
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimizers():
    return [Optimizer("adam", "torch.optim:Adam", summary="Another Adam")]
"""

MISSPELT = """
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimisers():
    return []
"""


@pytest.fixture
def bad(install_plugin: Callable[..., dict[str, str]]) -> dict[str, str]:
    """The environment of a machine with a broken, a slow, a noisy, a clashing and a misspelt plugin."""
    env: dict[str, str] = {}
    sources = {"broken": BROKEN, "slow": SLOW, "noisy": NOISY, "rival": RIVAL, "misspelt": MISSPELT}
    for name, source in sources.items():
        env = install_plugin(f"optim-{name}", source, name, env=env)
    return env
