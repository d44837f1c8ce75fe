"""`playground run`: trains once."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playground.cli.application import Application, common_options
from playground.cli.output import json_option, note, plugins_print_to_stderr, print_json
from playground.cli.words import experiment_options, out_option, progress_option
from playground.errors import brief
from playground.experiment import Experiment, read

if TYPE_CHECKING:
    from playground.runs.run import Run

EXIT_CODES = {"done": 0, "failed": 1, "diverged": 3, "stopped": 130}


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@experiment_options()
@out_option
@progress_option
@click.option("--trace-shapes", is_flag=True, help="Show what every replica saw and gave, for each size of batch.")
@click.option("--show-parameters", is_flag=True, help="Show the model's parameters at the end.")
@json_option
@common_options
@click.pass_obj
def run(
    application: Application,
    /,
    file: Path | None,
    out: Path,
    progress: str,
    trace_shapes: bool,
    show_parameters: bool,
    as_json: bool,
    **flags: Any,
) -> int:
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

        ended = execute(
            experiment,
            registry,
            out,
            observer_for(progress),
            trace_shapes=trace_shapes,
            keep_parameters=show_parameters,
        )
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
    for batch in ended.shapes:
        click.echo("\n".join(batch.lines()))
    if ended.status == "done":
        click.echo(str(ended))
        for name, value in ended.metrics.items():
            if name != ended.headline and value is not None:
                click.echo(f"{name}: {value:.3f}")
        if ended.known_optimum is not None:
            click.echo(f"known optimum: {ended.known_optimum:.3f} (least squares)")
    elif ended.status == "diverged":
        last = ended.history[-1]
        click.echo(f"diverged: the loss is not finite after step {last['step']:.0f} (a smaller --lr may help)")
    elif ended.status == "stopped":
        click.echo(f"stopped after step {ended.steps}")
    if ended.parameters is not None:
        from playground.engine.weights import lines

        click.echo("\n".join(lines(ended.parameters)))
    for text in ended.notes:
        note(f"note: {text}")
    note(f"saved in {ended.directory}")
