"""Playground: try optimizers and ways of parallel training against each other on real data.

Everything that can be chosen (data, model, optimizer, parallel backend) is a plugin. This module is the public API,
all that a plugin, a notebook or a script imports. Its names are loaded when they are first used, so that importing
`playground` imports neither torch nor matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from playground.components import Backend, Data, Model, Optimizer
    from playground.engine.backend import ParallelBackend, Place, Plan, Recipe, Request, Seen, StepResult
    from playground.engine.batches import Batch, Shard
    from playground.engine.dataset import Dataset
    from playground.engine.devices import Devices
    from playground.engine.objective import Objective
    from playground.engine.replicas import ReplicaBackend, ShardError
    from playground.engine.team import Concurrency, Team
    from playground.errors import ComponentError, PlaygroundError, RequestError
    from playground.experiment import Experiment
    from playground.hookspecs import hookimpl
    from playground.registry import Registry
    from playground.runs.execution import run
    from playground.runs.run import Run, RunFailedError

_HOMES = {
    "playground.components": ("Backend", "Data", "Model", "Optimizer"),
    "playground.engine.backend": ("ParallelBackend", "Place", "Plan", "Recipe", "Request", "Seen", "StepResult"),
    "playground.engine.batches": ("Batch", "Shard"),
    "playground.engine.dataset": ("Dataset",),
    "playground.engine.devices": ("Devices",),
    "playground.engine.objective": ("Objective",),
    "playground.engine.replicas": ("ReplicaBackend", "ShardError"),
    "playground.engine.team": ("Concurrency", "Team"),
    "playground.errors": ("ComponentError", "PlaygroundError", "RequestError"),
    "playground.experiment": ("Experiment",),
    "playground.hookspecs": ("hookimpl",),
    "playground.registry": ("Registry",),
    "playground.runs.execution": ("run",),
    "playground.runs.run": ("Run", "RunFailedError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Backend",
    "Batch",
    "ComponentError",
    "Concurrency",
    "Data",
    "Dataset",
    "Devices",
    "Experiment",
    "Model",
    "Objective",
    "Optimizer",
    "ParallelBackend",
    "Place",
    "Plan",
    "PlaygroundError",
    "Recipe",
    "Registry",
    "ReplicaBackend",
    "Request",
    "RequestError",
    "Run",
    "RunFailedError",
    "Seen",
    "Shard",
    "ShardError",
    "StepResult",
    "Team",
    "__version__",
    "hookimpl",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home when it is first asked for (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'playground' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
