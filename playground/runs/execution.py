"""Executing an experiment: the engine's records into the run, its directory, its figure and the plugins' hooks."""

from __future__ import annotations

import contextlib
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.components import KINDS
from playground.engine.assembly import Parts, assembled
from playground.engine.optimum import least_squares
from playground.engine.replicas import ShardError
from playground.engine.shapes import Shapes
from playground.engine.training import Training
from playground.errors import PlaygroundError, RequestError, brief
from playground.experiment import Experiment
from playground.registry import Registry
from playground.runs.directory import RunDirectory
from playground.runs.environment import describe
from playground.runs.journal import Journal, Muted, Observer
from playground.runs.run import Run, RunFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playground.engine.dataset import Dataset
    from playground.engine.devices import Devices
    from playground.engine.training import Record


UNSCALED = 50.0
"""Inputs larger than this have hardly been scaled: pixels up to 255, say."""

NO_BETTER = 3.0
"""How many standard deviations of a guesser's accuracy above its mean are still taken for guessing."""


def run(
    data: str | Mapping[str, Any] | None = None,
    model: str | Mapping[str, Any] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    backend: str | Mapping[str, Any] | None = None,
    *,
    lr: float | None = None,
    devices: Devices | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    eval_every: int | None = None,
    evaluate: str | Sequence[str] | None = None,
    dtype: str | None = None,
    trace_shapes: bool = False,
    keep_parameters: bool = False,
    out: str | Path | None = "runs",
    registry: Registry | None = None,
) -> Run:
    """Train once, with the same words as `playground run`.

    data, model, optimizer, backend: a component's name, an expression (`"adam:lr=0.01"`), or a table with its `name`
        and parameters. lr, devices: those parameters of the optimizer and the backend.
    epochs: passes over the training rows. steps: updates to stop after, in the place of epochs.
    batch_size: rows of a step, over all replicas. seed: of all randomness.
    eval_every: samples between evaluations. evaluate: `train`, `test` or both. dtype: `float32` or `float64`.
    trace_shapes: whether `run.shapes` is to hold what went through the replicas. keep_parameters: whether
        `run.parameters` is to hold the model's parameters and buffers at the end, on the CPU.
    out: where the run's directory is made; None writes nothing.
    registry: the plugins to choose from; by default those that are installed.

    Raises RequestError where the request is wrong, RunFailedError where the run fails (its cause is chained), and
    KeyboardInterrupt where it is interrupted. A run that diverges is returned, with that status.
    """
    registry = Registry() if registry is None else registry
    words = {
        "data": data,
        "model": model,
        "optimizer": optimizer,
        "backend": backend,
        "lr": lr,
        "devices": devices,
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "seed": seed,
        "eval_every": eval_every,
        "evaluate": evaluate,
        "dtype": dtype,
    }
    if not isinstance(out, str | Path | None):
        raise RequestError(f"out must be a path or None, not {out!r}")
    ended = execute(
        Experiment.of(registry, words),
        registry,
        None if out is None else Path(out),
        trace_shapes=trace_shapes,
        keep_parameters=keep_parameters,
    )
    if ended.error is not None:
        raise RunFailedError(brief(ended.error), ended) from ended.error
    if ended.status == "stopped":
        raise KeyboardInterrupt
    return ended


def execute(
    experiment: Experiment,
    registry: Registry,
    out: Path | None,
    observer: Observer | None = None,
    *,
    trace_shapes: bool = False,
    keep_parameters: bool = False,
    warm_up: int = 0,
) -> Run:
    """Run an experiment to its end and record it.

    trace_shapes: whether the run is to hold what went through the replicas. keep_parameters: whether it is to hold the
    model's parameters at the end. warm_up: the first steps, which its speed is not to be computed from.

    Raises RequestError while nothing has been written; afterwards every end, a failure and Ctrl-C too, is a run with
    its status.
    """
    observer = Muted(Observer() if observer is None else observer)
    run: Run | None = None
    try:
        with assembled(experiment) as parts, contextlib.ExitStack() as stack:
            shapes = Shapes() if trace_shapes else None
            training = Training(parts, experiment, warm_up=warm_up, shapes=shapes)
            # Closed here, not by garbage collection: it holds random states that it puts back.
            records = stack.enter_context(contextlib.closing(training.records(observer.tick)))
            # Before anything is written: a model that does not fit the data is a wrong request, not a failed run.
            first = _first(records, experiment)
            run = _begun(experiment, parts)
            run.shapes = shapes.batches if shapes is not None else []
            directory = None
            if out is not None:
                directory = RunDirectory.create(out, _facts(run, parts, registry))
                run.name, run.directory = directory.path.name, out / directory.path.name
            journal = Journal(run, directory, registry, observer)
            try:
                journal.start(training)
                for record in itertools.chain([first], records):
                    run.take_over(training)
                    journal.record(record)
                run.status = "diverged" if training.diverged else "done"
            except KeyboardInterrupt:
                run.status = "stopped"
            except BaseException as error:
                run.status, run.error = "failed", error
            run.take_over(training)
            run.notes += _afterthoughts(run, parts)
            if keep_parameters and run.status != "failed":
                try:
                    run.parameters = parts.backend.state_dict()["model"]
                except (Exception, KeyboardInterrupt) as error:
                    # They are shown beside the record, which must not be lost for them.
                    journal.note(f"the parameters of {run.name} could not be read: {brief(error)}")
            try:
                journal.end()
            except KeyboardInterrupt:
                journal.end()
            if run.error is not None:
                # So that the backend, which is closed now, hears of it.
                raise run.error
    except BaseException as error:
        if run is None or error is not run.error:
            raise
    return run


def _begun(experiment: Experiment, parts: Parts) -> Run:
    return Run(
        experiment,
        devices=[str(device) for device in parts.plan.devices],
        known_optimum=_known_optimum(experiment, parts),
        notes=[*parts.dataset.notes, *parts.plan.notes, *_remarks(experiment, parts)],
    )


def _first(records: Iterator[Record], experiment: Experiment) -> Record:
    try:
        return next(records)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, PlaygroundError) and not isinstance(error, ShardError):
            raise
        model, data = experiment.model.registration, experiment.data.registration
        raise RequestError(f"{model} cannot be evaluated on {data}: {brief(error)}") from error


def _known_optimum(experiment: Experiment, parts: Parts) -> float | None:
    # A parameter that is not at its default (no bias, say) may put some affine functions out of reach.
    known = experiment.model.registration.has("affine") and experiment.model.is_default
    return least_squares(parts.dataset) if known else None


def _remarks(experiment: Experiment, parts: Parts) -> list[str]:
    """What is known before the first step and easily overlooked."""
    found = []
    rows = parts.dataset.rows
    if experiment.batch_size > rows:
        found.append(
            f"a batch of {experiment.batch_size} is more than the {rows} training rows: every step sees them all"
        )
    if (largest := _largest_input(parts.dataset)) > UNSCALED:
        found.append(f"inputs reach {largest:.4g}; most models and learning rates are made for inputs near 1")
    return found


def _largest_input(dataset: Dataset) -> float:
    """The largest magnitude in the training inputs; 0 where they are not numbers in memory."""
    inputs = dataset.train[0] if isinstance(dataset.train, tuple) else None
    if inputs is None or not inputs.is_floating_point() or not inputs.numel():
        return 0.0
    low, high = inputs.aminmax()
    return max(-float(low), float(high))


def _afterthoughts(run: Run, parts: Parts) -> list[str]:
    """What the end of a run shows and is easily taken for a result."""
    classes = parts.dataset.classes or 1
    split = "test" if "test_accuracy" in run.metrics else "train"
    accuracy = run.metrics.get(f"{split}_accuracy")
    if run.status != "done" or classes == 1 or accuracy is None:
        return []
    chance = 1 / classes
    if accuracy <= chance + NO_BETTER * math.sqrt(chance * (1 - chance) / parts.feeds[split].rows):
        return [
            f"the accuracy is that of guessing one of {classes} classes: nothing has been learnt yet "
            "(a larger --lr or a longer training may help)"
        ]
    return []


def _facts(run: Run, parts: Parts, registry: Registry) -> dict[str, Any]:
    """What run.json says: all that is known before the first step."""
    experiment = run.experiment
    return {
        "experiment": experiment.to_dict(),
        "identity": experiment.identity,
        "components": {kind: experiment[kind].registration.provenance for kind in KINDS},
        "devices": run.devices,
        "threads": parts.plan.threads,
        "rows": parts.dataset.rows,
        "known_optimum": run.known_optimum,
        "notes": run.notes,
        **describe(registry.plugins),
    }
