"""Bringing the four files into the user's cache: from mirrors to a temporary folder, verified there, then moved."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from playground import RequestError

from .files import DATA, FILES, NAME, File, advised, cache, locate, remedy
from .idx import WrongFileError, header, length
from .progress import Bar, reporting

if TYPE_CHECKING:
    from typing import BinaryIO

MIRROR = "PLAYGROUND_MIRROR"
"""The environment variable that names the address of a folder with a folder for each data set."""

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)

WAYS = (
    f"install Debian's package dataset-fashion-mnist, or put the four files into ${DATA}/{NAME} (or name their folder "
    f"with path=), or run 'playground data fetch {NAME}' on a machine with a network and copy its folder"
)

PARTIAL = "partial-"
"""What the name of a temporary folder begins with."""

OLD = 24 * 60 * 60
"""Seconds after which a temporary folder belongs to no download any more."""

TIMEOUT = (10, 30)
"""Seconds that a server has to answer, and for each piece of what it sends."""

PIECE = 2**16

SLACK = 2**16
"""How many bytes an archive may have more than what is in it: gzip adds some to what it cannot make smaller."""


class MirrorError(Exception):
    """A mirror does not give the file; the message says why."""


def fetch() -> Path:
    """Where the four files are, verified. They are downloaded where they are nowhere on this machine.

    What is wrong with a file in the cache is mended. Raises RequestError where one elsewhere is wrong.
    """
    place = locate()
    if place is None or place == cache():
        return download()
    with advised(remedy(place)):
        for file in FILES:
            if (path := file.within(place)) is not None:
                file.read(path)
    return place


def download() -> Path:
    """Download what the user's cache lacks of the four files, and return its folder.

    Raises RequestError where there is no folder to write to, or no mirror that gives a file.
    """
    folder = cache()
    if folder is None:
        raise RequestError(f"no home folder to keep Fashion-MNIST in: set HOME or XDG_CACHE_HOME, or {WAYS}")
    try:
        # Where all are here nothing is written, and the folder need not be one that can be written to.
        if lacking := wanting(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            # Beside the files, so that they are moved within one file system: then a file is there whole or not at all.
            with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as temporary:
                _download(lacking, Path(temporary), folder)
    except OSError as error:
        what = f"cannot keep Fashion-MNIST in {folder}: {error.strerror or error}"
        raise RequestError(f"{what}; set XDG_CACHE_HOME to another folder, or {WAYS}") from error
    return folder


def wanting(folder: Path) -> list[File]:
    """Which of the four files a folder of ours lacks.

    Those that are there are verified; a wrong one is removed, with a warning that names it. Raises RequestError where
    that cannot be done, or a file cannot be read.
    """
    lacking = []
    for file in FILES:
        while (path := file.within(folder)) is not None:
            before = _identity(path)
            try:
                file.read(path)
                break
            except WrongFileError as error:
                # Not what another fetch has put in its place in the meantime.
                if _identity(path) == before:
                    try:
                        path.unlink(missing_ok=True)
                    except OSError as refused:
                        why = refused.strerror or refused
                        raise RequestError(f"{error}; it cannot be removed: {why}; remove it, or {WAYS}") from error
                    logging.getLogger("playground").warning(f"{error}; it was removed")
            except RequestError:
                if path.exists():
                    raise
        else:
            lacking.append(file)
    return lacking


def _download(wanted: list[File], temporary: Path, folder: Path) -> None:
    faults = []
    told = os.environ.get(MIRROR)
    mirrors = (f"{told.rstrip('/')}/{NAME}/", *MIRRORS) if told else MIRRORS
    for mirror in mirrors:
        # By hand, since an address that is none must not be an error here; and without the password that one may have.
        host = mirror.partition("://")[2].partition("/")[0].rpartition("@")[2] or mirror
        while wanted:
            try:
                path = _get(wanted[0], mirror, host, temporary)
            except MirrorError as error:
                faults.append(f"{wanted[0].name}.gz from {host}: {error}")
                break
            path.replace(folder / path.name)
            del wanted[0]
    if wanted:
        raise RequestError(f"cannot fetch Fashion-MNIST: {'; '.join(faults)}.\nTo have it here, {WAYS}")
    for fault in faults:
        logging.getLogger("playground").warning(f"{fault}; fetched from elsewhere")


def _get(file: File, mirror: str, host: str, temporary: Path) -> Path:
    """Download a file into the temporary folder and verify it. Raises MirrorError, or OSError of this machine's own."""
    path = temporary / f"{file.name}.gz"
    with reporting(path.name, host) as bar:
        _receive(mirror + path.name, path, length(file.shape) + SLACK, bar)
        with path.open("rb") as stream:
            unzipped = stream.read(4) == header(file.shape)[:4]
        if unzipped:
            # Some servers say that a .gz is a file that they have zipped for the way, and it is unzipped on arrival.
            path = path.replace(temporary / file.name)
        try:
            file.read(path)
        except WrongFileError as error:
            raise MirrorError(error.what) from error
    return path


def _receive(url: str, path: Path, most: int, bar: Bar | None) -> None:
    """Write what is at an address to a file, up to so many bytes."""
    # Only a download takes the time to import it.
    from pooch import HTTPDownloader  # type: ignore[import-untyped]

    # The file is to come as it is stored, and not zipped once more.
    headers = {"Accept-Encoding": "identity"}
    get = HTTPDownloader(progressbar=bar or False, chunk_size=PIECE, timeout=TIMEOUT, headers=headers)
    with path.open("wb") as target:
        sink = Sink(target, most)
        try:
            get(url, sink, None)
        except (OSError, ValueError) as error:
            if error is sink.failure:
                raise
            raise MirrorError(_cause(error)) from error


class Sink:
    """The file that a download is written to, which takes only so many bytes from a server that sends without end.

    failure: what this machine could not write, to be told from what the server did.
    """

    def __init__(self, target: BinaryIO, room: int) -> None:
        self._target = target
        self._room = room
        self.failure: OSError | None = None

    def write(self, piece: bytes) -> None:
        self._room -= len(piece)
        if self._room < 0:
            raise ValueError("it sends more than the file can have")
        try:
            self._target.write(piece)
            self._target.flush()
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        """What pooch asks for after each piece; it has been done."""


def _cause(error: BaseException) -> str:
    """Why a download failed, in few words."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    # requests and urllib3 wrap what the socket said in several layers, each with an address and a memory location.
    while getattr(error, "strerror", None) is None and (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


def _identity(path: Path) -> tuple[int, ...] | None:
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _sweep(folder: Path) -> None:
    """Remove what downloads that were killed have left, but not what another one is writing now."""
    for left in folder.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):
            last = max(path.stat().st_mtime for path in (left, *left.iterdir()))
            if time.time() - last > OLD:
                shutil.rmtree(left)
