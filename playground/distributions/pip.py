"""pip, run in this interpreter by a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from playground.discovery import normal
from playground.errors import PlaygroundError, RequestError
from playground.registry import HOME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

QUIET = ("--disable-pip-version-check", "--no-input")


class PipError(PlaygroundError):
    """pip failed; what it said has been shown."""


def pip(command: str, asked: Sequence[str], *, options: Sequence[str] = ()) -> None:
    """Run a command of pip; what it prints goes to stderr.

    asked: the words that say what is asked for. options: further ones, which only pip needs.
    Raises RequestError without pip, PipError where it fails.
    """
    if importlib.util.find_spec("pip") is None:
        raise RequestError(f"this interpreter has no pip; use: {_instead(command, asked)}")
    # -P: a folder `pip` in the working directory is not pip.
    words = [sys.executable, "-P", "-m", "pip", command, *QUIET, *options, *asked]
    done = subprocess.run(words, stdout=2, check=False)
    if done.returncode:
        raise PipError(f"pip {command} failed with exit code {done.returncode}; its messages are above")


def held() -> Iterator[str]:
    """Lines of a constraints file that hold this project and all that it needs, and what that needs in its turn, at the
    versions that are installed.

    A plugin that wants another torch is then refused by pip, where it would have taken torch away from everything else.
    """
    waiting, seen = [HOME], set()
    while waiting:
        name = normal(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # An extra that is not here, or the project itself where it runs from its source.
            continue
        yield f"{name}=={distribution.version}"
        needed = map(Requirement, distribution.requires or ())
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def _instead(command: str, asked: Sequence[str]) -> str:
    """The command of the tool that made this environment."""
    place = Path(sys.prefix)
    # Those of pipx and uv have other options than pip.
    names = not any(one.startswith("-") for one in asked)
    if names and "pipx" in place.parts:
        wanted = {"install": "inject", "uninstall": "uninject"}[command]
        return f"pipx {wanted} {place.name} {shlex.join(asked)}"
    if names and command == "install" and {"uv", "tools"} <= set(place.parts):
        return shlex.join(["uv", "tool", "install", HOME, *(word for name in asked for word in ("--with", name))])
    return f"{shlex.join(['uv', 'pip', command, '--python', sys.executable, *asked])}, or: python -m ensurepip"
