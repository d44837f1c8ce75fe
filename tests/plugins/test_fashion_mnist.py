import errno
import gzip
import hashlib
import os
import pwd
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from playground_plugins.data import playground_data
from playground_plugins.data.fashion_mnist import download, files
from playground_plugins.data.fashion_mnist.files import FILES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS
from playground_plugins.data.fashion_mnist.idx import WrongFileError
from playground_plugins.data.fashion_mnist.load import load

import playground
from playground import RequestError

NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def raw(folder, name):
    """What a published file holds, read in another way than the plugin reads it."""
    packed, plain = folder / f"{name}.gz", folder / name
    return gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(fashion_mnist):
    """All of it, loaded once for the tests that only look."""
    return load(path=str(fashion_mnist))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The folders where the files are looked for, in their order, all of them empty; and nowhere to download from."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PLAYGROUND_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("PLAYGROUND_MIRROR", raising=False)
    monkeypatch.setattr(files, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(download, "MIRRORS", ())
    cache = files.cache()
    assert tmp_path in cache.parents
    folders = {"data": tmp_path / "data" / "fashion-mnist", "cache": cache, "system": tmp_path / "system"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    return folders


@pytest.fixture(scope="module")
def copies(fashion_mnist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies")
    for name in NAMES:
        for path in fashion_mnist.glob(f"{name}*"):
            shutil.copy(path, folder)
    return folder


@pytest.fixture
def fill(copies):
    """Puts the real files into a folder: the images, which are large, as links, and the labels as copies."""

    def fill(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in copies.iterdir():
            (os.link if "images" in path.name else shutil.copy)(path, folder / path.name)

    return fill


# The component


def test_the_component_says_what_suits_it_and_whose_it_is():
    (component,) = (one for one in playground_data() if one.name == "fashion-mnist")
    assert component.settings == {
        "model": "lenet",
        "optimizer": "sgd:lr=0.2",
        "batch_size": 256,
        "epochs": 10,
        "evaluate": "test",
    }
    assert not component.default
    for word in ("Xiao", "Rasul", "Vollgraf", "1708.07747", "MIT"):
        assert word in component.origin


def test_looking_for_the_files_imports_nothing_heavy():
    code = (
        "import sys; from playground_plugins.data import playground_data;"
        "[one.locate() for one in playground_data()]; import playground_plugins.data.fashion_mnist.download;"
        "sys.exit(', '.join({'torch', 'numpy', 'pooch', 'requests', 'rich'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# What it gives


def test_there_are_60000_rows_to_train_on_and_10000_to_test_on_of_ten_classes(whole):
    for (images, classes), rows in ((whole.train, 60_000), (whole.test, 10_000)):
        assert images.shape == (rows, 1, 28, 28)
        assert images.dtype == torch.float32
        assert images.is_contiguous()
        assert classes.shape == (rows,)
        assert classes.dtype == torch.int64
    assert (whole.task, whole.classes, whole.outputs, whole.inputs) == ("classification", 10, 10, (1, 28, 28))


def test_every_number_is_the_byte_that_was_published_over_255(whole, fashion_mnist):
    for (images, classes), (of_images, of_classes) in zip(
        (whole.train, whole.test), (NAMES[:2], NAMES[2:]), strict=True
    ):
        published = raw(fashion_mnist, of_images)
        assert struct.unpack(">4I", published[:16]) == (0x803, len(images), 28, 28)
        expected = numpy.frombuffer(published, numpy.uint8, offset=16).astype(numpy.float32)
        expected /= numpy.float32(255)
        assert numpy.array_equal(images.numpy().reshape(-1), expected)
        assert classes.tolist() == list(raw(fashion_mnist, of_classes)[8:])


def test_the_images_are_from_0_to_1_and_have_the_sums_that_are_known(whole):
    for images, *sums in (
        (whole.train[0], 3_431_114_169, 76_247, 16_684),
        (whole.test[0], 573_469_082, 33_456, 24_390),
    ):
        assert (images.min(), images.max()) == (0, 1)
        found = [part.sum(dtype=torch.float64).item() * 255 for part in (images, images[0], images[-1])]
        assert found == pytest.approx(sums, rel=1e-7)
    # What everyone subtracts from Fashion-MNIST.
    assert whole.train[0].mean(dtype=torch.float64).item() == pytest.approx(0.2860, abs=5e-5)


def test_each_class_has_6000_rows_to_train_on_and_1000_to_test_on(whole):
    assert whole.train[1].bincount().tolist() == [6000] * 10
    assert whole.test[1].bincount().tolist() == [1000] * 10
    assert whole.train[1][:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert whole.test[1][:10].tolist() == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]


def test_the_first_rows_are_given_where_fewer_are_asked_for_and_no_others_are_kept(whole, fashion_mnist):
    some = load(rows=37, test_rows=1, path=str(fashion_mnist))
    for part, (images, classes), rows in ((some.train, whole.train, 37), (some.test, whole.test, 1)):
        assert torch.equal(part[0], images[:rows])
        assert torch.equal(part[1], classes[:rows])
        assert part[0].untyped_storage().nbytes() == rows * 28 * 28 * 4
        assert part[1].untyped_storage().nbytes() == rows * 8


@pytest.mark.parametrize(("name", "most"), [("rows", 60_000), ("test_rows", 10_000)])
def test_rows_that_there_are_not_are_refused_before_a_file_is_looked_for(name, most):
    for rows in (-1, 0, most + 1):
        with pytest.raises(RequestError, match=rf"^{name} must be from 1 to {most}, .*, not {rows}$"):
            load(**{name: rows}, path="/no/such/folder")


def test_training_begins_at_the_loss_of_a_guess_since_the_images_are_scaled(fashion_mnist):
    # Unscaled, the first losses are in the hundreds; a guess among ten classes is worth ln 10 = 2.30.
    run = playground.run(
        data={"name": "fashion-mnist", "rows": 600, "test_rows": 200, "path": str(fashion_mnist)},
        model="mlp",
        optimizer="sgd:lr=0.1",
        batch_size=50,
        epochs=2,
        out=None,
    )
    losses = [record["test_loss"] for record in run.history]
    assert run.status == "done"
    assert max(losses) < 2.5
    assert losses[-1] < 1.5
    assert run.metrics["test_accuracy"] > 0.5


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's record of a process's memory")
def test_loading_everything_takes_less_than_900_megabytes_torch_included(fashion_mnist):
    code = (
        "import sys; from playground_plugins.data.fashion_mnist.load import load; data = load(path=sys.argv[1]);"
        "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code, fashion_mnist], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 900_000


# Where it is looked for


def test_the_places_are_looked_at_in_their_order(places):
    assert files.locate() is None
    for name in ("system", "cache", "data"):
        for file in NAMES:
            (places[name] / file).touch()
        assert files.locate() == places[name]


@pytest.mark.parametrize("suffixes", [["", "", "", ""], [".gz", ".gz", ".gz", ".gz"], ["", ".gz", ".gz", ""]])
def test_a_place_counts_with_all_four_files_gzipped_or_not(places, suffixes):
    for name, suffix in zip(NAMES, suffixes, strict=True):
        assert files.locate() is None
        (places["data"] / f"{name}{suffix}").touch()
    assert files.locate() == places["data"]


def test_a_folder_in_place_of_a_file_does_not_count(places):
    for name in NAMES[1:]:
        (places["data"] / name).touch()
    (places["data"] / NAMES[0]).mkdir()
    assert files.locate() is None


def test_files_that_are_not_gzipped_hold_the_same(fill, whole, tmp_path):
    fill(tmp_path)
    for packed in tmp_path.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    assert sorted(contents(tmp_path)) == sorted(NAMES)
    found = load(path=str(tmp_path))
    for part, expected in zip((*found.train, *found.test), (*whole.train, *whole.test), strict=True):
        assert torch.equal(part, expected)


def test_a_tilde_is_the_home_directory(places, fill, monkeypatch):
    home = Path(os.environ["HOME"])
    fill(home / "mine" / "fashion-mnist")
    monkeypatch.setenv("PLAYGROUND_DATA", "~/mine")
    assert files.locate() == home / "mine" / "fashion-mnist"
    assert load(rows=1, path="~/mine/fashion-mnist").rows == 1


def test_an_empty_variable_is_none(places, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_DATA", "")
    assert files.places() == [places["cache"], places["system"]]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (
            "{folder}/missing",
            r"^cannot read the folder '.*/missing': No such file or directory; path= names the folder with",
        ),
        ("{folder}/file", r"^cannot read the folder '.*/file': Not a directory; path= names the folder with"),
        ("{folder}/a\0b", r"^cannot read the folder .*null"),
        ("{folder}/" + "x" * 300, r"^cannot read the folder .*: File name too long; path= names the folder with"),
        ("~nobody-of-this-name/x", r"^path is '~nobody-of-this-name/x': .*home directory"),
        ("{folder}", r" lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte \(gzipped, with \.gz, or not\)$"),
    ],
)
def test_a_folder_without_the_four_files_is_refused_in_one_line_and_no_other_is_taken(path, what, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / f"{NAMES[0]}.gz").touch()
    (tmp_path / NAMES[3]).touch()
    with pytest.raises(RequestError, match=what) as caught:
        load(path=path.format(folder=tmp_path))
    assert len(str(caught.value).splitlines()) == 1


def test_a_variable_that_is_nobody_s_home_is_named(places, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_DATA", "~nobody-of-this-name")
    with pytest.raises(RequestError, match=r"^\$PLAYGROUND_DATA is '~nobody-of-this-name': "):
        files.locate()


@pytest.fixture
def homeless(places, monkeypatch):
    """A user without a home, as in some containers."""

    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_who_has_no_home_uses_the_files_that_are_elsewhere(places, fill):
    assert files.cache() is None
    fill(places["system"])
    assert files.locate() == download.fetch() == places["system"]
    assert load(rows=1, test_rows=1).rows == 1


@pytest.mark.usefixtures("homeless")
def test_who_has_no_home_and_no_files_is_told_what_to_do(places):
    with pytest.raises(RequestError, match="no home folder") as caught:
        load()
    for word in ("XDG_CACHE_HOME", "dataset-fashion-mnist", "$PLAYGROUND_DATA/fashion-mnist", "path="):
        assert word in str(caught.value)


# Files that are wrong


def cut(packed):
    return packed[: len(packed) // 2]


def altered(packed):
    """A file of the right form with another value in it."""
    content = bytearray(gzip.decompress(packed))
    content[-1] ^= 1
    return gzip.compress(content, 1)


def longer(packed):
    return gzip.compress(gzip.decompress(packed) + b"\0", 1)


def shorter(packed):
    return gzip.compress(gzip.decompress(packed)[:-1], 1)


WRONG = {
    "cut off": (cut, "the gzip file is cut off"),
    "empty": (lambda packed: b"", "it is not a gzip file"),
    "unzipped": (gzip.decompress, "it is not a gzip file"),
    "of a web page": (lambda packed: b"<!doctype html>", "it is not a gzip file"),
    "a web page, gzipped": (
        lambda packed: gzip.compress(b"<!doctype html>" * 9),
        "its magic number is 0x3c21646f, not",
    ),
    "longer": (longer, "and it holds more"),
    "shorter": (shorter, "and it holds "),
    "altered": (altered, "is not Fashion-MNIST's: the SHA-256 of what it holds is "),
}


@pytest.mark.parametrize(("spoil", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_with_what_is_wrong(spoil, what, fashion_mnist, tmp_path):
    path = tmp_path / f"{TRAIN_LABELS.name}.gz"
    path.write_bytes(spoil(gzip.compress(raw(fashion_mnist, TRAIN_LABELS.name))))
    with pytest.raises(WrongFileError) as caught:
        TRAIN_LABELS.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert what in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (TRAIN_IMAGES, TEST_IMAGES, "its header says 10000 items of 28×28, not 60000 items of 28×28"),
        (TRAIN_IMAGES, TRAIN_LABELS, "its magic number is 0x00000801, not 0x00000803"),
        (TEST_LABELS, TRAIN_LABELS, "its header says 60000 items, not 10000 items"),
    ],
)
def test_files_whose_names_were_exchanged_are_refused(one, other, what, fashion_mnist, tmp_path):
    path = tmp_path / one.name
    path.write_bytes(raw(fashion_mnist, other.name))
    with pytest.raises(WrongFileError) as caught:
        one.read(path)
    assert str(caught.value) == f"{path}: {what}"


@pytest.mark.parametrize("where", ["path", "data", "system"])
@pytest.mark.parametrize("spoil", [cut, altered])
def test_a_wrong_file_of_the_user_s_or_the_system_s_is_named_and_left_as_it_is(spoil, where, places, fill, tmp_path):
    folder = places.get(where, tmp_path / "mine")
    fill(folder)
    # In the place after it everything is right, and it is not taken in silence.
    if where == "data":
        fill(places["cache"])
    wrong = next(folder.glob("train-labels-idx1-ubyte*"))
    wrong.write_bytes(spoil(gzip.compress(raw(folder, NAMES[1]))))
    before = contents(folder)
    with pytest.raises(WrongFileError, match=r"train-labels-idx1-ubyte") as caught:
        load(path=str(folder) if where == "path" else None)
    assert caught.value.path == wrong
    assert contents(folder) == before


@pytest.mark.parametrize("spoil", [cut, altered])
def test_a_wrong_file_in_the_cache_is_removed_with_a_warning_and_the_next_place_is_used(spoil, places, fill, caplog):
    fill(places["cache"])
    fill(places["system"])
    wrong = next(places["cache"].glob("train-labels-idx1-ubyte*"))
    wrong.write_bytes(spoil(gzip.compress(raw(places["cache"], NAMES[1]))))
    assert load(rows=3).train[1].tolist() == [9, 0, 0]
    assert not wrong.exists()
    assert len(contents(places["cache"])) == 3
    (record,) = caplog.records
    assert record.name == "playground"
    assert str(wrong) in record.getMessage()
    assert record.getMessage().endswith("it was removed")


def test_a_cache_that_cannot_be_written_to_does_not_matter_where_the_files_are_elsewhere(
    places, fill, caplog, monkeypatch
):
    def read_only(self, *arguments, **keywords):
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    fill(places["cache"])
    fill(places["system"])
    wrong = next(places["cache"].glob("train-labels-idx1-ubyte*"))
    wrong.write_bytes(cut(wrong.read_bytes()))
    for name in ("unlink", "mkdir"):
        monkeypatch.setattr(Path, name, read_only)
    assert load(rows=3).rows == 3
    (record,) = caplog.records
    assert str(wrong) in record.getMessage()
    assert record.getMessage().endswith("this copy is passed over")
    # Where they are not, that is what the user is told.
    monkeypatch.setattr(files, "SYSTEM", Path("/no/such/folder"))
    said = rf"{wrong}: .*; it cannot be removed: Read-only file system; remove it, or install Debian's package"
    with pytest.raises(RequestError, match=said):
        load()


def test_a_whole_cache_need_not_be_one_that_can_be_written_to(places, fill, monkeypatch):
    def read_only(self, *arguments, **keywords):
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    fill(places["cache"])
    monkeypatch.setattr(files, "SYSTEM", Path("/no/such/folder"))
    for name in ("unlink", "mkdir"):
        monkeypatch.setattr(Path, name, read_only)
    assert download.fetch() == places["cache"]


def test_about_a_wrong_file_it_is_said_what_to_do(places, fill, monkeypatch):
    advice = {
        "mine": "put a whole one there, or let $PLAYGROUND_DATA name another folder",
        "system": "reinstall Debian's package dataset-fashion-mnist",
    }
    for place, said in advice.items():
        if place == "mine":
            monkeypatch.setenv("PLAYGROUND_DATA", str(places["cache"].parent / "mine"))
            folder = places["cache"].parent / "mine" / "fashion-mnist"
        else:
            monkeypatch.delenv("PLAYGROUND_DATA")
            folder = places["system"]
        fill(folder)
        wrong = next(folder.glob("t10k-labels*"))
        wrong.write_bytes(cut(wrong.read_bytes()))
        for ask in (load, download.fetch):
            with pytest.raises(RequestError, match=re.escape(said)) as caught:
                ask()
            assert str(wrong) in str(caught.value)
    with pytest.raises(RequestError, match="put a whole one there, or leave path= out"):
        load(path=str(places["system"]))


def test_the_names_are_those_that_were_published():
    assert [file.name for file in FILES] == NAMES


def test_fetching_mends_the_cache_and_names_what_is_wrong_elsewhere(places, fill, monkeypatch):
    # What is not here cannot be downloaded; so a fetch that ends well has verified what is here.
    fill(places["system"])
    assert download.fetch() == places["system"]
    label = next(places["system"].glob("t10k-labels*"))
    label.write_bytes(label.read_bytes()[:100])
    with pytest.raises(RequestError, match="t10k-labels"):
        download.fetch()
    fill(places["cache"])
    assert download.fetch() == places["cache"]
    label = next(places["cache"].glob("t10k-labels*"))
    label.write_bytes(label.read_bytes()[:100])
    with pytest.raises(RequestError):
        download.fetch()
    assert not label.exists()


def test_a_folder_of_the_user_s_that_lacks_a_file_is_passed_over_with_a_warning(places, fill, caplog):
    fill(places["data"])
    fill(places["system"])
    next(places["data"].glob("t10k-labels*")).unlink()
    load(rows=10, test_rows=10)
    (record,) = caplog.records
    assert record.getMessage() == f"{places['data']} lacks t10k-labels-idx1-ubyte; it is passed over"


def test_a_variable_that_cannot_be_followed_is_named_and_nothing_else_is_advised(call, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_DATA", "~nobody-of-this-name")
    done = call("data", "path", "fashion-mnist")
    assert done.code == 2
    said = "its plugin cannot say: $PLAYGROUND_DATA is '~nobody-of-this-name': Could not determine home directory"
    assert done.err == f"error: data 'fashion-mnist' has no path: {said}\n"
