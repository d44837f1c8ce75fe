"""Loading Fashion-MNIST: images of numbers from 0 to 1, and the numbers of their classes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch

from playground import Dataset, RequestError

from .download import download, wanting
from .files import (
    CLASSES,
    FILES,
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    File,
    advised,
    cache,
    expanded,
    missing,
    places,
    remedy,
)
from .idx import header

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


def load(rows: int | None = None, test_rows: int | None = None, path: str | None = None) -> Dataset:
    """Read the images and scale them to numbers from 0 to 1.

    Images have the shape (N, 1, 28, 28), float32; classes (N,), int64, from 0 to 9: T-shirt, trouser, pullover, dress,
    coat, sandal, shirt, sneaker, bag, ankle boot. The files are looked for in `$PLAYGROUND_DATA/fashion-mnist`, in the
    user's cache and in /usr/share/datasets/fashion-mnist; where they are not, they are downloaded into the cache. What
    is read is verified each time.

    Args:
        rows: how many of the 60000 training rows to use, from the first on; none is all.
        test_rows: how many of the 10000 test rows to use, from the first on; none is all.
        path: the folder with the four files, gzipped or not; none is the first of the usual places that has them.

    Raises:
        RequestError: there are not so many rows, a file is wrong or cannot be read, or there is no way to get it.
    """
    wanted = (
        _within("rows", rows, TRAIN_IMAGES.shape[0], "training"),
        _within("test_rows", test_rows, TEST_IMAGES.shape[0], "test"),
    )
    if path is not None:
        with advised("put a whole one there, or leave path= out"):
            return _read(_given(path), *wanted)
    for place in places():
        if lost := missing(place):
            if len(lost) < len(FILES):
                logging.getLogger("playground").warning(f"{place} lacks {', '.join(lost)}; it is passed over")
            continue
        try:
            return _read(place, *wanted)
        except RequestError as error:
            if place != cache():
                with advised(remedy(place)):
                    raise
            # The cache is ours to mend, and not the only place.
            _mend(place, error)
    return _read(download(), *wanted)


def _within(name: str, rows: int | None, most: int, kind: str) -> int:
    if rows is not None and not 1 <= rows <= most:
        raise RequestError(f"{name} must be from 1 to {most}, as many {kind} rows as there are, not {rows}")
    return most if rows is None else rows


def _given(path: str) -> Path:
    """The folder that the user names. Raises RequestError where it does not have the four files."""
    folder = expanded(path, "path")
    if lost := missing(folder):
        try:
            next(folder.iterdir(), None)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            advice = "path= names the folder with the four files, or is left out"
            raise RequestError(f"cannot read the folder {str(folder)!r}: {reason}; {advice}") from error
        raise RequestError(f"{folder} lacks {', '.join(lost)} (gzipped, with .gz, or not)")
    return folder


def _mend(folder: Path, fault: RequestError) -> None:
    """Remove what is wrong in the cache; where that cannot be done, a warning has to do."""
    try:
        wanting(folder)
    except (OSError, RequestError):
        logging.getLogger("playground").warning(f"{fault}; this copy is passed over")


def _read(folder: Path, rows: int, test_rows: int) -> Dataset:
    # One file after the other: what each holds is given back before the next is read.
    return Dataset(
        train=(_images(TRAIN_IMAGES, folder, rows), _classes(TRAIN_LABELS, folder, rows)),
        test=(_images(TEST_IMAGES, folder, test_rows), _classes(TEST_LABELS, folder, test_rows)),
        task="classification",
        classes=CLASSES,
    )


def _images(file: File, folder: Path, rows: int) -> Tensor:
    return _values(file, folder)[:rows].unsqueeze(1).float().div_(255)


def _classes(file: File, folder: Path, rows: int) -> Tensor:
    return _values(file, folder)[:rows].long()


def _values(file: File, folder: Path) -> Tensor:
    """The unsigned bytes of a file, in its shape. Raises RequestError where they are not Fashion-MNIST's."""
    path = file.within(folder)
    if path is None:
        raise RequestError(f"{folder / file.name} was there a moment ago, and is gone")
    # The tensor is a view of what was read, and no copy.
    return torch.frombuffer(file.read(path), dtype=torch.uint8, offset=len(header(file.shape))).view(file.shape)
