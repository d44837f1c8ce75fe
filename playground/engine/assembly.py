"""From an experiment to the parts that are trained: data, objective, backend with its replicas."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from playground.engine import defaults, randomness
from playground.engine.backend import ParallelBackend, Place, Plan, Recipe, Request
from playground.engine.batches import Feed, Order, feeds
from playground.engine.dataset import Dataset
from playground.engine.devices import available
from playground.engine.objective import Objective, objective_for
from playground.errors import ComponentError, PlaygroundError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playground.experiment import Choice, Experiment


T = TypeVar("T")

_TORCH = threading.RLock()
"""Held while parts are in use. torch has one default generator and one number of threads for the whole process, so runs
that are started from several threads take turns."""


@dataclass(frozen=True)
class Parts:
    """What the training loop works with.

    exact: whether the backend promises that replicas stay equal.
    """

    dataset: Dataset
    feeds: dict[str, Feed]
    order: Order
    objective: Objective
    backend: ParallelBackend
    exact: bool
    plan: Plan
    place: Place


@contextlib.contextmanager
def assembled(experiment: Experiment) -> Iterator[Parts]:
    """Build an experiment's parts, and give everything back at the end: threads, memory, torch's random state.

    Raises RequestError where the backend refuses, ComponentError where a component fails or refuses its parameters.
    """
    with _TORCH, defaults.plain():
        backend, plan = _planned(experiment)
        guard = experiment.backend.registration.guard
        closure = experiment.optimizer.registration.has("closure")
        place = Place(plan.devices)
        with randomness.preserved(place.devices):
            with randomness.drawing(experiment.seed, "data"):
                dataset = _built(experiment.data, Dataset)
            _check_splits(experiment, dataset)
            # Whatever draws on the CPU though its replica is elsewhere.
            randomness.start(experiment.seed, "host")
            dtype = getattr(torch, experiment.dtype)
            try:
                with guard("failed to start"):
                    backend.setup(plan, place)
                    backend.prepare(_recipe(experiment, dataset, dtype, closure))
                parts = Parts(
                    dataset,
                    feeds(dataset, dtype, experiment.seed),
                    Order(dataset.rows, experiment.batch_size, experiment.seed),
                    objective_for(dataset.task),
                    backend,
                    experiment.backend.registration.has("exact"),
                    plan,
                    place,
                )
                # A model that makes tensors in its forward pass makes them in the experiment's precision.
                with defaults.dtype(dtype):
                    yield parts
            except BaseException as error:
                _close(experiment.backend, backend, error)
                raise
            _close(experiment.backend, backend, None)


def planned(experiment: Experiment) -> Plan:
    """Where an experiment's work would be done; nothing is started. Raises RequestError as `assembled` does."""
    with _TORCH, defaults.plain():
        return _planned(experiment)[1]


def _planned(experiment: Experiment) -> tuple[ParallelBackend, Plan]:
    backend = _built(experiment.backend, ParallelBackend)  # type: ignore[type-abstract]
    closure = experiment.optimizer.registration.has("closure")
    with experiment.backend.registration.guard("failed to plan"):
        plan = _checked(backend.plan(Request(experiment.batch_size, torch.get_num_threads(), closure)))
    if plan.processes != 1:
        raise RequestError(
            f"{experiment.backend.registration} plans {plan.processes} processes; this version runs one process"
        )
    return backend, plan


def _close(choice: Choice, backend: ParallelBackend, error: BaseException | None) -> None:
    """Close the backend; what that raises must neither hide what ended the run nor undo a run that is done."""
    try:
        with choice.registration.guard("failed to close"):
            backend.close(error)
    except PlaygroundError as failure:
        logging.getLogger("playground").warning(str(failure))


def _checked(plan: Plan) -> Plan:
    if not isinstance(plan, Plan):
        raise TypeError(f"it gives a {type(plan).__name__}, not a Plan")
    if not plan.devices or not all(isinstance(device, torch.device) for device in plan.devices):
        raise TypeError(f"its devices are {plan.devices!r}, not torch.device objects")
    absent = [str(device) for device in plan.devices if device not in {*available(), torch.device("cpu")}]
    if absent:
        raise ValueError(f"it plans for devices that are not here: {', '.join(absent)}")
    return plan


def _check_splits(experiment: Experiment, dataset: Dataset) -> None:
    if dataset.test is None and "test" in (experiment.evaluate or ()):
        raise RequestError(f"{experiment.data.registration} has no test rows here, and they are to be evaluated")


def _recipe(experiment: Experiment, dataset: Dataset, dtype: torch.dtype, closure: bool) -> Recipe:
    inputs, outputs = dataset.inputs, dataset.outputs

    def model() -> nn.Module:
        # Drawn on the CPU in float32 whatever the experiment's dtype: every device, backend and precision starts
        # from the same numbers.
        with randomness.drawing(experiment.seed, "weights"):
            return _built(experiment.model, nn.Module, inputs, outputs).to(dtype)

    def optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
        return _built(experiment.optimizer, Optimizer, parameters)

    return Recipe(model, optimizer, closure, experiment.seed)


def _built(choice: Choice, wanted: type[T], *leading: object) -> T:
    built = choice.build(*leading)
    if not isinstance(built, wanted):
        raise ComponentError(f"{choice.registration} gives a {type(built).__name__}, not a {wanted.__name__}")
    return built
