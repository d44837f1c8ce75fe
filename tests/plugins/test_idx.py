import contextlib
import gzip
import math
import tracemalloc

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from playground_plugins.data.fashion_mnist.idx import WrongFileError, header, length, read

from playground import RequestError

SHAPES = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)
FORMS = st.sampled_from(["values", "values.gz"])


@st.composite
def contents(draw):
    """A shape, and all that a file of that shape holds."""
    shape = draw(SHAPES)
    count = math.prod(shape)
    # Made here byte by byte, as the format's description says, and not by what is tested.
    start = b"\0\0\x08" + len(shape).to_bytes(1, "big") + b"".join(bytes((0, 0, 0, size)) for size in shape)
    return shape, start + draw(st.binary(min_size=count, max_size=count))


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    folder = tmp_path_factory.mktemp("idx")

    def write(content, name="values", *, packed=None):
        """A file with this content, gzipped where its name says so; `packed` is written as it is."""
        file = folder / name
        file.write_bytes(packed if packed is not None else gzip.compress(content) if name.endswith(".gz") else content)
        return file

    return write


def refusal(path, shape):
    """Why a file is refused: a line that begins with its path."""
    with pytest.raises(WrongFileError) as caught:
        read(path, shape)
    message = str(caught.value)
    assert message == f"{path}: {caught.value.what}"
    assert caught.value.path == path
    assert len(message.splitlines()) == 1
    return caught.value.what


# What is right


@settings(deadline=None)
@given(contents(), FORMS)
def test_whatever_was_written_is_read_back(write, content, name):
    shape, whole = content
    assert read(write(whole, name), shape) == whole
    assert length(shape) == len(whole)
    assert header(shape) == whole[: 4 + 4 * len(shape)]


def test_an_archive_in_several_pieces_is_one_file(write):
    # As bgzip makes them, and `cat`.
    whole = header((2000,)) + bytes(2000)
    packed = b"".join(gzip.compress(whole[place : place + 500]) for place in range(0, len(whole), 500))
    assert read(write(b"", "values.gz", packed=packed), (2000,)) == whole


# What is wrong


@settings(deadline=None)
@given(contents(), FORMS, st.data())
def test_a_file_that_is_cut_off_anywhere_is_refused(write, content, name, data):
    shape, whole = content
    path = write(whole, name)
    full = path.read_bytes()
    path.write_bytes(full[: data.draw(st.integers(0, len(full) - 1))])
    what = refusal(path, shape)
    if name.endswith(".gz"):
        assert what in ("the gzip file is cut off", "it is not a gzip file")


@settings(deadline=None)
@given(contents(), FORMS, st.binary(min_size=1, max_size=100))
def test_a_file_that_goes_on_after_its_end_is_refused(write, content, name, tail):
    shape, whole = content
    assert refusal(write(whole + tail, name), shape).endswith(f"that is {len(whole)} bytes in all, and it holds more")


@settings(deadline=None)
@given(contents(), FORMS, st.data())
def test_a_file_with_too_few_values_is_refused_with_both_lengths(write, content, name, data):
    shape, whole = content
    kept = data.draw(st.integers(len(header(shape)), len(whole) - 1))
    what = refusal(write(whole[:kept], name), shape)
    assert what.startswith(f"its header says {shape[0]} items")
    assert what.endswith(f"that is {len(whole)} bytes in all, and it holds {kept}")


@settings(deadline=None)
@given(contents(), FORMS, SHAPES)
def test_a_file_of_another_shape_is_refused(write, content, name, shape):
    other, whole = content
    assume(other != shape and len(whole) >= len(header(shape)))
    what = refusal(write(whole, name), shape)
    if len(other) != len(shape):
        assert what == f"its magic number is 0x0000080{len(other)}, not 0x0000080{len(shape)}"
    else:
        assert what.startswith(f"its header says {other[0]} items")
        assert f", not {shape[0]} items" in what


@settings(deadline=None)
@given(SHAPES, FORMS, st.binary(max_size=200))
def test_any_bytes_are_a_file_of_that_form_or_refused_in_a_line(write, shape, name, whole):
    assume(whole[: len(header(shape))] != header(shape))
    refusal(write(whole, name), shape)
    refusal(write(b"", name, packed=whole), shape)


@settings(deadline=None)
@given(contents(), st.data())
def test_a_changed_archive_gives_what_was_in_it_or_is_refused(write, content, data):
    shape, whole = content
    packed = bytearray(gzip.compress(whole))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    path = write(b"", "values.gz", packed=packed)
    # Its date and the name in it may be anything.
    with contextlib.suppress(WrongFileError):
        assert read(path, shape) == whole


IMAGES = (3, 28, 28)
WHOLE = header(IMAGES) + bytes(range(256)) * 9 + bytes(48)

WRONG = {
    "empty": (b"", "it holds 0 bytes, and the header alone takes 16"),
    "no more than a magic number": (WHOLE[:4], "it holds 4 bytes, and the header alone takes 16"),
    "labels": (header((3,)) + bytes(99), "its magic number is 0x00000801, not 0x00000803"),
    "floats": (b"\0\0\x0d\3" + WHOLE[4:], "its magic number is 0x00000d03, not 0x00000803"),
    "a page": (b"<!doctype html><html>", "its magic number is 0x3c21646f, not 0x00000803"),
    "fewer images": (header((2, 28, 28)) + WHOLE[16:], "its header says 2 items of 28×28, not 3 items of 28×28"),
    "low byte first": (WHOLE[:4] + b"\3\0\0\0" + WHOLE[8:], "its header says 50331648 items of 28×28, not 3 items"),
    "short": (WHOLE[:-1], "its header says 3 items of 28×28, that is 2368 bytes in all, and it holds 2367"),
    "long": (WHOLE + b"\n", "its header says 3 items of 28×28, that is 2368 bytes in all, and it holds more"),
}


@pytest.mark.parametrize("name", ["values", "values.gz"])
@pytest.mark.parametrize(("content", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_with_what_is_wrong(content, what, name, write):
    assert refusal(write(content, name), IMAGES).startswith(what)


PACKED = gzip.compress(WHOLE)

DAMAGED = {
    "empty": (b"", "it is not a gzip file"),
    "not packed": (WHOLE, "it is not a gzip file"),
    "cut off in its header": (PACKED[:5], "the gzip file is cut off"),
    "cut off in the middle": (PACKED[: len(PACKED) // 2], "the gzip file is cut off"),
    "cut off in its checksum": (PACKED[:-5], "the gzip file is cut off"),
    "another checksum": (PACKED[:-8] + bytes(4) + PACKED[-4:], "the gzip file is damaged: CRC check failed"),
    "something after it": (PACKED + b"something", "the gzip file is damaged: Not a gzipped file"),
    "no deflate": (PACKED[:10] + b"\xff" * 50, "the gzip file is damaged: Error -3"),
}


@pytest.mark.parametrize(("packed", "what"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_is_refused_with_what_is_wrong(packed, what, write):
    assert refusal(write(b"", "values.gz", packed=packed), IMAGES).startswith(what)


@pytest.mark.parametrize("name", ["values", "values.gz"])
def test_no_more_is_unpacked_than_the_header_promises(name, write):
    path = write(WHOLE + bytes(50_000_000), name)
    tracemalloc.start()
    try:
        refusal(path, IMAGES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("name", "what"),
    [("missing", "No such file"), ("missing.gz", "No such file"), (".", "Is a directory"), ("x" * 300, "too long")],
)
def test_a_file_that_cannot_be_read_is_refused_but_not_called_wrong(name, what, tmp_path):
    with pytest.raises(RequestError, match=rf"^cannot read .*: .*{what}") as caught:
        read(tmp_path / name, IMAGES)
    assert not isinstance(caught.value, WrongFileError)
