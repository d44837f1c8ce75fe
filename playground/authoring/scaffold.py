"""A new distribution with one plugin, written from the templates beside this file.

A template is a text with `$component`, `$factory` and the like in it (string.Template); what is in `common` belongs to
every kind.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import keyword
import re
import shutil
import string
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playground.components import KINDS
from playground.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

PREFIX = "playground-"
NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")


def write(name: str, kind: str, folder: Path) -> Path:
    """Write a distribution `playground-NAME` with a component NAME into a new folder of that name, and return it.

    name: lower-case letters and digits, with `-`, `_` or `.` between them; `playground-` before it may be left out.
    Raises RequestError, leaving nothing behind, where the name is not of that form, or the folder is there or cannot be
    made.
    """
    if kind not in KINDS:
        raise RequestError(f"there is no kind '{kind}'; there are: {', '.join(KINDS)}")
    component = name.removeprefix(PREFIX)
    if not NAME.fullmatch(component):
        raise RequestError(f"'{name}' is no name for a plugin: lower-case letters and digits, with '-' between them")
    factory = "".join(part.capitalize() for part in re.split(r"[._-]", component))
    if keyword.iskeyword(factory):
        raise RequestError(f"'{name}' is no name for a plugin: Python keeps the word {factory} for itself")
    words = {
        "distribution": f"{PREFIX}{component}",
        "module": re.sub(r"[.-]", "_", f"{PREFIX}{component}"),
        "component": component,
        "factory": factory,
        "factory_name": "load" if kind == "data" else factory,
        "kind": kind,
    }
    target = folder / words["distribution"]
    try:
        if target.exists():
            raise RequestError(f"{target} is there already; nothing was written")
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that it is moved there whole or not at all.
        with _temporary(folder) as made:
            for path, text in _files(kind):
                place = made / string.Template(path).substitute(words)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(string.Template(text).substitute(words), encoding="utf-8")
            made.rename(target)
    except OSError as error:
        raise RequestError(f"cannot write {target}: {error.strerror or error}") from error
    return target


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=".new-plugin-", dir=folder, ignore_cleanup_errors=True) as kept:
        made = Path(kept) / "made"
        made.mkdir()
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _files(kind: str) -> Iterator[tuple[str, str]]:
    """The path, itself a template, and the text of each file."""
    templates = importlib.resources.files("playground.authoring") / "templates"
    for part in ("common", kind):
        yield from _below(templates / part, "")


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for one in sorted(folder.iterdir(), key=lambda item: item.name):
        if one.is_dir():
            yield from _below(one, f"{path}{one.name}/")
        else:
            # `$module` would be an odd name for a folder of this project, so it is `MODULE` on disk.
            yield (
                f"{path}{one.name.removesuffix('.tmpl')}".replace("MODULE", "$module"),
                one.read_text(encoding="utf-8"),
            )
