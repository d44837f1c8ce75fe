"""Progress: a bar on a terminal, at most a line an epoch elsewhere, and never a word of it on stdout."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import playground
from playground.cli.progress import Bar, Lines, Quiet, observer_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = ("run", "--data", "linear-regression:rows=60")


def epochs_said(err: str) -> list[str]:
    return [line.split(":")[0] for line in err.splitlines() if line.startswith("epoch ")]


@pytest.mark.parametrize(
    ("flags", "epochs"),
    [
        (("--epochs", 3, "--eval-every", 5), ["epoch 1/3", "epoch 2/3", "epoch 3/3"]),
        (("--epochs", 3, "--eval-every", 60), ["epoch 1/3", "epoch 2/3", "epoch 3/3"]),
        (("--epochs", 4, "--eval-every", 90), ["epoch 1/4", "epoch 3/4", "epoch 4/4"]),
        (("--epochs", 5, "--eval-every", 10_000), ["epoch 5/5"]),
        (("--epochs", 1, "--eval-every", 1, "--batch-size", 1), ["epoch 1/1"]),
        # An epoch has six steps of ten rows.
        (("--steps", 13, "--eval-every", 60), ["epoch 1/2.17", "epoch 2/2.17", "epoch 2.17/2.17"]),
        (("--steps", 12, "--eval-every", 60), ["epoch 1/2", "epoch 2/2"]),
        (("--steps", 3, "--eval-every", 10), ["epoch 0.5/0.5"]),
        # Every digit of a large number.
        (("--epochs", 12345, "--batch-size", 60, "--eval-every", 10**6), ["epoch 12345/12345"]),
    ],
)
def test_without_a_terminal_there_is_at_most_a_line_an_epoch(
    call: Callable[..., Any], flags: tuple[Any, ...], epochs: list[str]
) -> None:
    done = call(*SMALL, *flags)
    assert done.code == 0
    assert epochs_said(done.err) == epochs
    assert "\r" not in done.err
    assert "\x1b" not in done.err
    # Beside the epochs there are only notes and the place of the run.
    others = [line for line in done.err.splitlines() if not line.startswith("epoch ")]
    assert all(re.match("note: |saved in ", line) for line in others)


def test_an_epochs_line_says_its_losses(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "airfoil:holdout=0.2", "--epochs", 1)
    (line,) = [line for line in done.err.splitlines() if line.startswith("epoch 1/1: ")]
    assert re.fullmatch(r"epoch 1/1: train_loss 0\.\d+  test_loss 0\.\d+", line)


def test_no_progress_leaves_the_notes_and_the_place_of_the_run(call: Callable[..., Any]) -> None:
    done = call("run", "--epochs", 1, "--progress", "none")
    first, second = done.err.splitlines()
    assert first.startswith("note: columns standardised over all 1503 rows")
    assert second.startswith("saved in runs/")


@pytest.mark.parametrize("mode", ["auto", "bar", "lines", "none"])
def test_no_way_of_showing_progress_touches_the_result(call: Callable[..., Any], mode: str) -> None:
    done = call(*SMALL, "--json", "--progress", mode)
    assert done.code == 0
    assert done.json["metrics"] == playground.run(SMALL[-1], out=None).metrics


@pytest.mark.parametrize(("terminal", "expected"), [(True, Bar), (False, Lines)])
def test_a_bar_is_chosen_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, expected: type
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert type(observer_for("auto")) is expected


@pytest.mark.parametrize(("mode", "expected"), [("bar", Bar), ("lines", Lines), ("none", Quiet)])
@pytest.mark.parametrize("terminal", [True, False])
def test_what_was_asked_for_is_shown_wherever_it_goes(
    monkeypatch: pytest.MonkeyPatch, mode: str, expected: type, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert type(observer_for(mode)) is expected


def on_a_terminal(cwd: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command with a terminal for stderr and a pipe for stdout; gives the exit code and what each got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "playground", *arguments],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            # Linux says so when the last one who could write has gone.
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out, shown.decode()


def test_a_terminal_shows_a_bar_and_stdout_stays_clean(
    tmp_path: Path, install_plugin: Callable[..., dict[str, str]]
) -> None:
    code, out, shown = on_a_terminal(tmp_path, "run", "--epochs", "2", env=install_plugin("optim-noisy", NOISY))
    assert code == 0
    assert re.fullmatch(
        r"loss: 0\.\d{3}, \d+\.\d{3} sec/epoch on \[.*\]\nknown optimum: 0\.242 \(least squares\)\n", out
    )
    assert re.search(r"\d+%", shown)
    assert "━" in shown
    assert "train_loss 0." in shown
    assert "\x1b[" in shown
    # The cursor, if it was hidden, is shown again.
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")
    assert not epochs_said(shown)
    # A note in the middle of it all is a line of its own, and so is the place of the run.
    assert "note: plugin optim-noisy/optim_noisy failed in playground_evaluation: RuntimeError: not again [b]" in shown
    assert re.search(r"saved in runs/\S+\r\n$", shown)


NOISY = """
from playground import hookimpl

@hookimpl
def playground_evaluation(run, record):
    if record["step"] == 40:
        raise RuntimeError("not again [b]")
"""
