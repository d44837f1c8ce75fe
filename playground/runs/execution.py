"""Executing an experiment: the engine's records into the run, its directory, its figure and the plugins' hooks."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.components import KINDS
from playground.engine.assembly import Parts, assembled
from playground.engine.optimum import least_squares
from playground.engine.training import Training
from playground.errors import PlaygroundError, RequestError, brief
from playground.experiment import Experiment
from playground.registry import Registry
from playground.runs.directory import RunDirectory
from playground.runs.environment import describe
from playground.runs.journal import Journal, Muted, Observer
from playground.runs.run import Run, RunFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playground.engine.devices import Devices
    from playground.engine.training import Record


def run(
    data: str | Mapping[str, Any] | None = None,
    model: str | Mapping[str, Any] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    backend: str | Mapping[str, Any] | None = None,
    *,
    lr: float | None = None,
    devices: Devices | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    eval_every: int | None = None,
    dtype: str | None = None,
    out: str | Path | None = "runs",
    registry: Registry | None = None,
) -> Run:
    """Train once, with the same words as `playground run`.

    data, model, optimizer, backend: a component's name, an expression (`"adam:lr=0.01"`), or a table with its `name`
        and parameters. lr, devices: those parameters of the optimizer and the backend.
    epochs: passes over the training rows. batch_size: rows of a step, over all replicas. seed: of all randomness.
    eval_every: samples between evaluations. dtype: `float32` or `float64`.
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
        "batch_size": batch_size,
        "seed": seed,
        "eval_every": eval_every,
        "dtype": dtype,
    }
    if not isinstance(out, str | Path | None):
        raise RequestError(f"out must be a path or None, not {out!r}")
    ended = execute(Experiment.of(registry, words), registry, None if out is None else Path(out))
    if ended.error is not None:
        raise RunFailedError(brief(ended.error), ended) from ended.error
    if ended.status == "stopped":
        raise KeyboardInterrupt
    return ended


def execute(experiment: Experiment, registry: Registry, out: Path | None, observer: Observer | None = None) -> Run:
    """Run an experiment to its end and record it.

    Raises RequestError while nothing has been written; afterwards every end, a failure and Ctrl-C too, is a run with
    its status.
    """
    observer = Muted(Observer() if observer is None else observer)
    run: Run | None = None
    try:
        with assembled(experiment) as parts, contextlib.ExitStack() as stack:
            training = Training(parts, experiment.epochs, experiment.eval_every)
            # Closed here, not by garbage collection: it holds random states that it puts back.
            records = stack.enter_context(contextlib.closing(training.records(observer.tick)))
            # Before anything is written: a model that does not fit the data is a wrong request, not a failed run.
            first = _first(records, experiment)
            run = _begun(experiment, parts)
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
    except (PlaygroundError, KeyboardInterrupt):
        raise
    except BaseException as error:
        model, data = experiment.model.registration, experiment.data.registration
        raise RequestError(f"{model} cannot be evaluated on {data}: {brief(error)}") from error


def _known_optimum(experiment: Experiment, parts: Parts) -> float | None:
    # A parameter that is not at its default (no bias, say) may put some affine functions out of reach.
    known = experiment.model.registration.has("affine") and experiment.model.is_default
    return least_squares(parts.dataset) if known else None


def _remarks(experiment: Experiment, parts: Parts) -> list[str]:
    rows = parts.dataset.rows
    if experiment.batch_size > rows:
        return [f"a batch of {experiment.batch_size} is more than the {rows} training rows: every step sees them all"]
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
