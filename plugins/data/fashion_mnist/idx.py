"""IDX, the format of MNIST's files: a header with a magic number and the sizes, then the values, often gzipped.

As described at http://yann.lecun.com/exdb/mnist/: two bytes of 0, a byte for the type of the values (8 is the unsigned
byte), a byte for the number of dimensions, the size of each in four bytes with the high one first, and the values.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import zlib
from typing import TYPE_CHECKING

from playground import RequestError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

UNSIGNED_BYTE = 8
GZIP = b"\x1f\x8b"
"""What a gzip file begins with."""

PIECE = 2**20
"""How many bytes are unpacked at a time."""


class WrongFileError(RequestError):
    """A file does not hold what it should. path: the file. what: what is wrong with it."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


def header(shape: tuple[int, ...]) -> bytes:
    """What a file of unsigned bytes of that shape begins with."""
    return bytes((0, 0, UNSIGNED_BYTE, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)


def length(shape: tuple[int, ...]) -> int:
    """How many bytes a file of unsigned bytes of that shape has, its header included."""
    return len(header(shape)) + math.prod(shape)


def read(path: Path, shape: tuple[int, ...]) -> bytearray:
    """All that a file of unsigned bytes holds, its header included; unzipped where its name ends in `.gz`.

    shape: the sizes that it must have. Whatever a file would unpack to, no more is asked of it than these take, and a
        byte.
    Raises WrongFileError where it is cut off or damaged or has another magic number, other sizes or another length,
    and RequestError where it cannot be read.
    """
    start, end = header(shape), length(shape)
    # The byte after the last one says whether the file is longer; to ask for it also lets gzip compare its checksum.
    content = bytearray(end + 1)
    with memoryview(content) as room, _opened(path) as stream:
        found = _fill(path, stream, room[: len(start)])
        _check_header(path, bytes(room[:found]), shape)
        found += _fill(path, stream, room[found:])
    if found != end:
        holds = f"{found}" if found < end else "more"
        raise WrongFileError(path, f"its header says {_sizes(shape)}, that is {end} bytes in all, and it holds {holds}")
    del content[end:]
    return content


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedIOBase]:
    try:
        with path.open("rb") as raw:
            if path.suffix != ".gz":
                yield raw
                return
            if raw.read(len(GZIP)) != GZIP:
                raise WrongFileError(path, "it is not a gzip file")
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield unzipped
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from error


def _fill(path: Path, stream: io.BufferedIOBase, room: memoryview) -> int:
    """Read until the room is full or the file at its end, and return how many bytes came."""
    found = 0
    try:
        while came := stream.readinto(room[found : found + PIECE]):
            found += came
    except EOFError:
        raise WrongFileError(path, "the gzip file is cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise WrongFileError(path, f"the gzip file is damaged: {error}") from None
    return found


def _check_header(path: Path, found: bytes, shape: tuple[int, ...]) -> None:
    start = header(shape)
    if len(found) < len(start):
        raise WrongFileError(path, f"it holds {len(found)} bytes, and the header alone takes {len(start)}")
    if found[:4] != start[:4]:
        raise WrongFileError(path, f"its magic number is 0x{found[:4].hex()}, not 0x{start[:4].hex()}")
    if found != start:
        sizes = tuple(int.from_bytes(found[place : place + 4], "big") for place in range(4, len(found), 4))
        raise WrongFileError(path, f"its header says {_sizes(sizes)}, not {_sizes(shape)}")


def _sizes(shape: tuple[int, ...]) -> str:
    """The sizes in words: `60000 items of 28×28`."""
    items, *rest = map(str, shape)
    return f"{items} items" + (f" of {'×'.join(rest)}" if rest else "")
