"""The data `airfoil`: five features of an airfoil in a wind tunnel, and the sound pressure level that it makes."""

from __future__ import annotations

import codecs
import math
import reprlib
from pathlib import Path

import torch
from torch import Tensor

from playground import Dataset, RequestError

from . import AIRFOIL

COLUMNS = 6
BOOK_ROWS = 1500


def load(rows: int | None = None, holdout: float = 0.0, path: str | None = None, seed: int = 0) -> Dataset:
    """Read the measurements and standardise their columns, the target's too.

    Without `holdout` this is the preparation of *Dive into Deep Learning* (section 12.5, `get_data_ch11`): the mean and
    the (population) standard deviation are those of every row of the file, the few that are not used included. With
    it they are those of the training rows alone, so that nothing of the test rows leaks into training. Inputs have the
    shape (N, 5), targets (N, 1), both float32; the statistics are computed in float64.

    Args:
        rows: how many rows to use, from the first on; none is the book's 1500, or all where the file has fewer.
        holdout: the share of these rows to keep for testing, at least 0 and below 1, rounded to whole rows.
        path: another file of the same form, six columns of numbers separated by tabs or spaces; none is NASA's.
        seed: which rows are held out; without `holdout` nothing is random.

    Raises:
        RequestError: the file cannot be read or is not of that form, or there are too few rows for what is asked.
    """
    name, table = read(AIRFOIL if path is None else Path(path))
    total = len(table)
    rows = min(BOOK_ROWS, total) if rows is None else rows
    if not 1 <= rows <= total:
        raise RequestError(f"rows must be from 1 to {total}, as many as {name} has, not {rows}")
    if not 0 <= holdout < 1:
        raise RequestError(f"holdout must be at least 0 and below 1, not {holdout}")
    if not 0 <= seed < 2**63:
        raise RequestError(f"seed must be at least 0 and below 2**63, not {seed}")
    if holdout == 0:
        note = (
            f"columns standardised over all {total} rows of the file, also those not trained on (the book's way); "
            f"the first {rows} are used"
        )
        return Dataset(train=_split(standardise(table[:rows], table, name)), notes=(note,))
    held = round(holdout * rows)
    if not 0 < held < rows:
        raise RequestError(f"holdout={holdout} of {rows} rows leaves {held} to test on and {rows - held} to train on")
    shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    # The split is by chance, but both parts keep the file's order, which is easier to compare with the file.
    test, train = (table[part.sort().values] for part in (shuffled[:held], shuffled[held:]))
    whose = f"the {len(train)} training rows of {name}"
    note = f"columns standardised over the {len(train)} training rows alone; {held} of the first {rows} rows held out"
    return Dataset(
        train=_split(standardise(train, train, whose)), test=_split(standardise(test, train, whose)), notes=(note,)
    )


def read(path: Path) -> tuple[str, Tensor]:
    """The file's name with `~` expanded, and its numbers, float64 of shape (N, 6). Raises RequestError."""
    try:
        path = path.expanduser()
        raw = path.read_bytes()
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:
        # No home for this `~user`; a null character in the path.
        raise RequestError(f"cannot read {str(path)!r}: {error}") from error
    return str(path), parse(raw, str(path))


def parse(raw: bytes, name: str) -> Tensor:
    """The numbers in the bytes of a file, float64 of shape (N, 6).

    Lines end in LF or CRLF; columns are separated by tabs or spaces; blank lines may follow the last row.
    Raises RequestError, naming the file (`name`), the line and what is wrong with it.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line = len(raw[: error.start + 1].splitlines())
        raise RequestError(f"{name}, line {line}: not text in UTF-8") from error
    values: list[float] = []
    # Bytes, not text: text would also be cut at a line separator or a no-break space, and lines miscounted.
    for line, content in enumerate(raw.rstrip().splitlines(), start=1):
        words = content.split()
        if len(words) != COLUMNS:
            wanted = f"not {COLUMNS}, separated by tabs or spaces"
            raise RequestError(f"{name}, line {line}: {len(words)} column{'s' * (len(words) != 1)}, {wanted}")
        try:
            values += map(_number, words)
        except ValueError as error:
            raise RequestError(f"{name}, line {line}: {error}") from None
    if not values:
        raise RequestError(f"{name}, line 1: the file is empty")
    return torch.tensor(values, dtype=torch.float64).view(-1, COLUMNS)


def standardise(table: Tensor, sample: Tensor, whose: str) -> Tensor:
    """The columns of `table` less the mean of `sample`, over its population standard deviation, as float32.

    Raises RequestError, naming the column and `whose` rows the sample is, where that cannot be done.
    """
    if len(sample) < 2:
        raise RequestError(f"{whose}: one row cannot be standardised, it takes two or more")
    mean, deviation = sample.mean(dim=0), sample.std(dim=0, correction=0)
    result = ((table - mean) / deviation).float()
    # Not `deviation == 0`: the mean of equal numbers is rounded, which leaves a deviation that is tiny but not 0.
    constant = sample.amin(dim=0) == sample.amax(dim=0)
    unfit = constant | ~deviation.isfinite() | ~result.isfinite().all(dim=0)
    for column in unfit.nonzero().flatten().tolist():
        if constant[column]:
            what = f"{sample[0, column].item():g} in every row, and a constant cannot be standardised"
        else:
            what = "its numbers are too far apart, or too close together, to be standardised"
        raise RequestError(f"{whose}, column {column + 1}: {what}")
    return result


def _number(word: bytes) -> float:
    try:
        # Python alone takes 1_000 for a number.
        value = float(word.replace(b"_", b"?"))
    except ValueError:
        raise ValueError(f"{reprlib.repr(word.decode())} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{reprlib.repr(word.decode())} is not a finite number")
    return value


def _split(table: Tensor) -> tuple[Tensor, Tensor]:
    return table[:, :-1].contiguous(), table[:, -1:].contiguous()
