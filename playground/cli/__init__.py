"""The command line: a file per command; thin: parse, call, print."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from playground import __version__
from playground.cli.application import Application, common_options
from playground.cli.check import check
from playground.cli.data import data
from playground.cli.install import install, uninstall
from playground.cli.list import list_
from playground.cli.new_plugin import new_plugin
from playground.cli.output import note
from playground.cli.plugins import plugins
from playground.cli.run import run
from playground.cli.scale import scale
from playground.cli.show import show
from playground.errors import PlaygroundError, RequestError, brief
from playground.streams import keep_stdout_for_results

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130

LONGEST = 1000
"""Letters of an error; more help nobody."""


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="playground")
@common_options
@click.pass_context
def cli(context: click.Context) -> None:
    """Try optimizers and ways of parallel training against each other on real data."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (run, scale, list_, show, data, plugins, install, uninstall, check, new_plugin):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    application = Application()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever started us; what is written to nobody must not be an error.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
    kept = keep_stdout_for_results()
    # A library of a plugin's that crashes the interpreter leaves a word of where it was.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        faulthandler.enable()
    code = _code(arguments, application) or DONE
    if kept:
        # What a plugin says on its way out is no result.
        sys.stdout = sys.stderr
    sys.exit(code)


def _code(arguments: Sequence[str] | None, application: Application) -> int | None:
    try:
        code: int | None = cli.main(arguments, "playground", standalone_mode=False, obj=application)
        sys.stdout.flush()
        return code
    except click.ClickException as error:
        return _complain(error, application, error.format_message(), WRONG_REQUEST)
    except PlaygroundError as error:
        return _complain(error, application, str(error), WRONG_REQUEST if isinstance(error, RequestError) else FAILED)
    except (KeyboardInterrupt, click.Abort) as error:
        # click makes an Abort, which says nothing, of a KeyboardInterrupt, which may say when it came.
        # An EOFError, which is nobody's wish, becomes one too.
        if isinstance(error.__cause__, EOFError):
            return _complain(error, application, _fault(error.__cause__), FAILED)
        said = (error.__cause__ or "") if isinstance(error, click.Abort) else error
        return _complain(error, application, f"interrupted {said}".rstrip(), INTERRUPTED)
    except Exception as error:
        if (refused := _refusal_of_stdout()) is not None:
            if isinstance(refused, BrokenPipeError):
                # Whoever read the output has gone; nobody is there to be told.
                return FAILED
            return _complain(error, application, f"the output could not be written: {refused.strerror}", FAILED)
        return _complain(error, application, _fault(error), FAILED)


def _fault(error: BaseException) -> str:
    return f"{brief(error)} (a fault of playground's own; --debug shows where)"


def _refusal_of_stdout() -> OSError | None:
    """What keeps the results from being written, where something does."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # What Python still holds back would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _complain(error: BaseException, application: Application, message: str, code: int) -> int:
    text = " ".join(message.split())
    with contextlib.suppress(OSError):
        if application.debug:
            traceback.print_exception(error)
        note(f"error: {text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}")
    return code
