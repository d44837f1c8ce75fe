"""Fashion-MNIST's four files: what they are called, what they hold, and the places where they may lie."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from playground import RequestError

from .idx import WrongFileError, read

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "fashion-mnist"
DATA = "PLAYGROUND_DATA"
"""The environment variable that names a folder with a folder for each data set."""

SYSTEM = Path("/usr/share/datasets") / NAME
"""Where Debian's package dataset-fashion-mnist puts them."""

CLASSES = 10


@dataclass(frozen=True)
class File:
    """One of the four files.

    name: as it was published, without `.gz`. shape: of the unsigned bytes in it. sha256: of what it holds, unzipped:
    others (Debian is one) have compressed it anew, so what is known of the archives is of no use.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str

    def within(self, folder: Path) -> Path | None:
        """Where it lies in a folder, gzipped or plain; None where it does not."""
        for path in (folder / f"{self.name}.gz", folder / self.name):
            # A folder that may not be looked into is a folder without the file.
            with contextlib.suppress(OSError):
                if path.is_file():
                    return path
        return None

    def read(self, path: Path) -> bytearray:
        """What the file at that path holds, unzipped and verified. Raises WrongFileError, or RequestError."""
        content = read(path, self.shape)
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            differs = f"the SHA-256 of what it holds is {found[:16]}…, not {self.sha256[:16]}…"
            raise WrongFileError(path, f"it has the right form, but it is not Fashion-MNIST's: {differs}")
        return content


TRAIN_IMAGES = File(
    "train-images-idx3-ubyte",
    (60_000, 28, 28),
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
)
TRAIN_LABELS = File(
    "train-labels-idx1-ubyte",
    (60_000,),
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
)
TEST_IMAGES = File(
    "t10k-images-idx3-ubyte",
    (10_000, 28, 28),
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
)
TEST_LABELS = File(
    "t10k-labels-idx1-ubyte",
    (10_000,),
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


def locate() -> Path | None:
    """The first of the places where all four files are; None where there is none."""
    return next((place for place in places() if not missing(place)), None)


def places() -> list[Path]:
    """Where the files are looked for, in this order. Raises RequestError where a place has a `~` that means nobody."""
    found = []
    if told := os.environ.get(DATA):
        found.append(expanded(told, f"${DATA}") / NAME)
    if (kept := cache()) is not None:
        found.append(kept)
    return [*found, SYSTEM]


def cache() -> Path | None:
    """The folder of the user's cache where downloads are kept; None for a user without a home."""
    try:
        folder = platformdirs.user_cache_path("playground", appauthor=False)
    except RuntimeError:
        return None
    # Older versions of platformdirs leave the `~` of a user without a home as it is.
    return folder / NAME if folder.is_absolute() else None


def remedy(place: Path) -> str:
    """What is to be done about a wrong file in one of the places."""
    if place == SYSTEM:
        return "reinstall Debian's package dataset-fashion-mnist"
    return f"put a whole one there, or let ${DATA} name another folder"


@contextlib.contextmanager
def advised(advice: str) -> Iterator[None]:
    """What is wrong with a file is said with what to do about it."""
    try:
        yield
    except WrongFileError as error:
        raise WrongFileError(error.path, f"{error.what}; {advice}") from error


def missing(folder: Path) -> list[str]:
    """Which of the four files are not in a folder."""
    return [file.name for file in FILES if file.within(folder) is None]


def expanded(text: str, what: str) -> Path:
    """A path with its `~` expanded. Raises RequestError, which says `what` the text is, where nobody has that home."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise RequestError(f"{what} is {text!r}: {str(error).rstrip('.')}") from error
