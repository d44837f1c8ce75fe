"""`playground run`: trains once."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playground.cli.application import Application, common_options
from playground.cli.output import json_option, note, plugins_print_to_stderr, print_json
from playground.errors import brief
from playground.experiment import DTYPES, Experiment, read

if TYPE_CHECKING:
    from playground.runs.run import Run

EXIT_CODES = {"done": 0, "failed": 1, "diverged": 3, "stopped": 130}


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--data", metavar="EXPR", help="The data, as NAME or NAME:KEY=VALUE,KEY=VALUE.")
@click.option("--model", metavar="EXPR", help="The model, written likewise.")
@click.option("-o", "--optimizer", metavar="EXPR", help="The optimizer, written likewise, e.g. adam:lr=0.01.")
@click.option("-b", "--backend", metavar="EXPR", help="The parallel backend, e.g. manual:reduce=ring.")
@click.option("--devices", metavar="DEVICES", help="How many replicas, 'auto', or which: cpu,cpu or cuda:0,cuda:2.")
@click.option("--lr", type=float, help="The optimizer's learning rate; never scaled by the number of devices.")
@click.option("--epochs", type=int, help="Passes over the training rows.")
@click.option("--batch-size", type=int, help="Rows of a step, over all replicas together.")
@click.option("--seed", type=int, help="Of the initial weights, the order of rows and dropout.")
@click.option("--eval-every", type=int, metavar="SAMPLES", help="Samples between evaluations.")
@click.option("--dtype", metavar="|".join(DTYPES), help="The precision.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="runs",
    show_default=True,
    help="Where to make the run's directory.",
)
@click.option(
    "--progress",
    type=click.Choice(["auto", "bar", "lines", "none"]),
    default="auto",
    show_default=True,
    help="How progress is shown on stderr: a bar, a line an epoch, or neither.",
)
@json_option
@common_options
@click.pass_obj
def run(application: Application, /, file: Path | None, out: Path, progress: str, as_json: bool, **flags: Any) -> int:
    """Train once, and record the run.

    FILE is an experiment in TOML, with the same words as the options; an option beats the file. What neither says is
    chosen by the data, or by the plugins' defaults.
    """
    layers = [read(file)] if file is not None else []
    registry = application.registry
    with plugins_print_to_stderr():
        experiment = Experiment.of(registry, *layers, flags)
        from playground.cli.progress import observer_for
        from playground.runs.execution import execute

        ended = execute(experiment, registry, out, observer_for(progress))
    if as_json:
        print_json(ended.to_dict())
    else:
        _print(ended)
    if ended.error is not None:
        if application.debug:
            traceback.print_exception(ended.error)
        note(f"error: the run failed after step {ended.steps}: {brief(ended.error)}; see {ended.directory}/log.txt")
    return EXIT_CODES[ended.status]


def _print(ended: Run) -> None:
    if ended.status == "done":
        click.echo(str(ended))
        for name, value in ended.metrics.items():
            if name != "train_loss" and value is not None:
                click.echo(f"{name}: {value:.3f}")
        if ended.known_optimum is not None:
            click.echo(f"known optimum: {ended.known_optimum:.3f} (least squares)")
    elif ended.status == "diverged":
        last = ended.history[-1]
        click.echo(f"diverged: the loss is not finite after step {last['step']:.0f} (a smaller --lr may help)")
    elif ended.status == "stopped":
        click.echo(f"stopped after step {ended.steps}")
    for text in ended.notes:
        note(f"note: {text}")
    note(f"saved in {ended.directory}")
