"""`playground scale`: times a backend over numbers of devices and batch sizes."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playground.cli.application import Application, common_options
from playground.cli.output import json_option, note, plugins_print_to_stderr, print_json, print_table
from playground.cli.words import experiment_options, out_option, progress_option
from playground.errors import RequestError
from playground.experiment import Experiment, read

if TYPE_CHECKING:
    from playground.runs.journal import Observer
    from playground.runs.scaling import Scaling

EXIT_CODES = {"stopped": 130, "failed": 1, "diverged": 3}
"""By the worst end of a point, the worst first."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@experiment_options(but=("devices", "batch_size"))
@click.option("--devices", metavar="N,N,…", help="Numbers of devices; one is always among them, as the baseline.")
@click.option(
    "--batch-size", "batch_sizes", type=int, multiple=True, help="Rows of a step over all devices. Repeatable."
)
@click.option(
    "--scaling",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="Whether the batch stays the same or grows with the devices.",
)
@click.option("--scale-lr", is_flag=True, help="Let the learning rate grow in proportion to the batch.")
@click.option("--warm-up", type=int, help="Steps that are not timed; by default 5 with --steps, else none.")
@click.option("--repeats", type=int, default=1, show_default=True, help="Runs of each combination; medians are shown.")
@out_option
@progress_option
@json_option
@common_options
@click.pass_obj
def scale(
    application: Application,
    /,
    file: Path | None,
    devices: str | None,
    batch_sizes: tuple[int, ...],
    scaling: str,
    scale_lr: bool,
    warm_up: int | None,
    repeats: int,
    out: Path,
    progress: str,
    as_json: bool,
    **flags: Any,
) -> int:
    """Time a training on one and more devices.

    Every combination of a number of devices and a batch size is a run like any other, timed against the run on one
    device; replicas on the CPU share the threads of that one. FILE is an experiment in TOML; an option beats it.
    """
    layers = [read(file)] if file is not None else []
    counts = None if devices is None else _counts(devices)
    registry = application.registry
    with plugins_print_to_stderr():
        # Before torch is imported, which a misspelt name need not wait for.
        Experiment.of(registry, *layers, flags)
        from playground.cli.progress import observer_for
        from playground.runs.scale import scale as run_all

        def observer(said: str) -> Observer:
            if progress != "none":
                # Where nobody reads stderr any more, the table is still wanted.
                with contextlib.suppress(OSError):
                    note(said)
            return observer_for(progress)

        done = run_all(
            [*layers, flags],
            counts,
            batch_sizes or None,
            registry=registry,
            out=out,
            scaling="weak" if scaling == "weak" else "strong",
            scale_lr=scale_lr,
            warm_up=warm_up,
            repeats=repeats,
            observer=observer,
        )
    if as_json:
        print_json(done.to_dict())
    else:
        _print(done)
    for point in done.points:
        if application.debug:
            for error in (run.error for run in point.runs if run.error is not None):
                traceback.print_exception(error)
        for text in point.errors:
            note(f"error: {point}: {text}")
    if done.directory is not None:
        note(f"saved in {done.directory}")
    ends = {point.status for point in done.points} | ({"stopped"} if done.stopped else set())
    return next((code for end, code in EXIT_CODES.items() if end in ends), 0)


def _counts(said: str) -> list[int]:
    try:
        return [int(word) for word in said.split(",")]
    except ValueError:
        raise RequestError(f"--devices of scale are numbers of devices, such as 1,2,4, not {said!r}") from None


def _print(done: Scaling) -> None:
    metric = next((run.headline for point in done.points for run in point.ended_runs), None) or "loss"
    print_table(
        (
            "devices",
            "batch",
            "lr",
            metric.replace("_", " "),
            "sec/epoch",
            "samples/s",
            "speed-up",
            "efficiency",
            "serial fraction",
            "where the time went",
        ),
        [
            (
                str(row["devices"]),
                str(row["batch_size"]),
                _number(row["lr"], ".4g"),
                _number(row["metrics"].get(metric), ".3f") if row["status"] == "done" else row["status"],
                _number(row["sec_per_epoch"], ".3f"),
                _number(row["samples_per_sec"], ".0f"),
                _number(row["speed_up"], ".2f"),
                _number(row["efficiency"], ".0%"),
                _number(row["serial_fraction"], ".2f"),
                _shares(row["time"]),
            )
            for row in done.rows
        ],
    )
    for text in done.notes:
        click.echo(text)


def _number(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)


def _shares(time: dict[str, float | None]) -> str:
    """The phases that took a hundredth of the time or more, the longest first."""
    known = sorted(((share, phase) for phase, share in time.items() if share is not None), reverse=True)
    return ", ".join(f"{phase} {share:.0%}" for share, phase in known if share >= 0.01)
