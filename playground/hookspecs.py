"""What a plugin may provide: one typed function a hook.

A plugin is a module (or any object) that an entry point in the group `playground` names. It implements the hooks that
it needs, under their own names, marked with `playground.hookimpl`. The first four hooks are called once, when a
registry is made; they must be quick, so they describe components and import neither torch nor the code they describe.
The last three are called during each run, in the order in which the plugins were found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from playground.components import Backend, Data, Model, Optimizer
    from playground.runs.run import Run

PROJECT = "playground"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function as the implementation of the hook of its name."""


@hookspec
def playground_data() -> Iterable[Data]:  # type: ignore[empty-body]
    """The data sets that this plugin provides.

    Called once for each registry. A good implementation returns a list of literals, e.g.
    `[Data("airfoil", "my_plugin.airfoil:load", summary="Noise of airfoils in a wind tunnel")]`.
    """


@hookspec
def playground_models() -> Iterable[Model]:  # type: ignore[empty-body]
    """The models that this plugin provides.

    Called once for each registry. A good implementation returns a list of literals, e.g.
    `[Model("lenet", "my_plugin.lenet:LeNet", summary="Two convolutions and two linear layers")]`.
    """


@hookspec
def playground_optimizers() -> Iterable[Optimizer]:  # type: ignore[empty-body]
    """The optimizers that this plugin provides.

    Called once for each registry. A good implementation returns a list of literals whose `defaults` hold a learning
    rate that works, e.g. `[Optimizer("lion", "my_plugin.lion:Lion", summary="Sign momentum", defaults={"lr": 1e-4})]`.
    """


@hookspec
def playground_backends() -> Iterable[Backend]:  # type: ignore[empty-body]
    """The parallel backends that this plugin provides.

    Called once for each registry. A good implementation returns a list of literals, e.g.
    `[Backend("gossip", "my_plugin.gossip:Gossip", summary="Averages between neighbours", exact=False)]`.
    """


@hookspec
def playground_run_start(run: Run) -> None:
    """A run has its directory and is about to take its first step.

    `run` holds the experiment, the directory (None where nothing is written) and an empty history. It is a view, made
    anew for each call: what is done to it changes nothing. A good
    implementation opens what it needs and keeps it under `run.name`, since several runs may be under way. What it
    raises is reported and cannot harm the run.
    """


@hookspec
def playground_evaluation(run: Run, record: Mapping[str, float | None]) -> None:
    """An evaluation has been made and recorded.

    `record` is a copy of the line that was appended to metrics.jsonl, the last of `run.history`: `step`, `samples`,
    `epoch`, `seconds`, `lr`, `train_loss` and the other metrics. Called outside the timed part of the run; a good
    implementation is still quick. What it raises is reported and cannot harm the run.
    """


@hookspec
def playground_run_end(run: Run) -> None:
    """A run has ended, in whatever way: `run.status` is done, diverged, failed or stopped.

    The summary has been written. A good implementation closes what it opened. What it raises is reported and cannot
    harm the run.
    """
