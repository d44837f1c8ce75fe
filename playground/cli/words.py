"""The options that say an experiment, shared by the commands that train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from playground.components import SPLITS
from playground.experiment import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS = {
    "data": click.option("--data", metavar="EXPR", help="The data, as NAME or NAME:KEY=VALUE,KEY=VALUE."),
    "model": click.option("--model", metavar="EXPR", help="The model, written likewise."),
    "optimizer": click.option(
        "-o", "--optimizer", metavar="EXPR", help="The optimizer, written likewise, e.g. adam:lr=0.01."
    ),
    "backend": click.option("-b", "--backend", metavar="EXPR", help="The parallel backend, e.g. manual:reduce=ring."),
    "devices": click.option(
        "--devices", metavar="DEVICES", help="How many replicas, 'auto', or which: cpu,cpu or cuda:0,cuda:2."
    ),
    "lr": click.option("--lr", type=float, help="The optimizer's learning rate, never scaled by the devices."),
    "epochs": click.option("--epochs", type=int, help="Passes over the training rows."),
    "steps": click.option("--steps", type=int, help="Updates to stop after, in the place of epochs."),
    "batch_size": click.option("--batch-size", type=int, help="Rows of a step, over all replicas together."),
    "seed": click.option("--seed", type=int, help="Of the initial weights, the order of rows and dropout."),
    "eval_every": click.option("--eval-every", type=int, metavar="SAMPLES", help="Samples between evaluations."),
    "evaluate": click.option("--evaluate", metavar="|".join(SPLITS), help="The rows to evaluate; both by a comma."),
    "dtype": click.option("--dtype", metavar="|".join(DTYPES), help="The precision."),
}


def experiment_options(*, but: tuple[str, ...] = ()) -> Callable[[F], F]:
    """An option for each word of an experiment, but for some that the command has in a form of its own."""

    def add(command: F) -> F:
        for word, option in reversed(_OPTIONS.items()):
            if word not in but:
                command = option(command)
        return command

    return add


out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="runs",
    show_default=True,
    help="Where to make the directory of a run.",
)

progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "bar", "lines", "none"]),
    default="auto",
    show_default=True,
    help="How progress is shown on stderr: a bar, a line an epoch, or neither.",
)
