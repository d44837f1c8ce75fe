import gzip
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from playground_plugins.data.fashion_mnist import download, files
from playground_plugins.data.fashion_mnist.files import FILES
from playground_plugins.data.fashion_mnist.load import load

from playground import RequestError

IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = NAMES = [f"{file.name}.gz" for file in FILES]

# `playground` on a machine that has neither Debian's copy of the files nor any mirror but those that it is told.
PROGRAM = """
import json, os, resource, sys
from pathlib import Path
from playground_plugins.data.fashion_mnist import download, files
told = json.loads(os.environ["TOLD"])
files.SYSTEM = Path(told["system"])
download.MIRRORS = tuple(told["mirrors"])
if told["largest"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (told["largest"], told["largest"]))
from playground.cli import main
main(sys.argv[1:])
"""


class Mirror(http.server.ThreadingHTTPServer):
    """A server of the real files. `asked`: the paths so far. `answers`: by a file's name, what sends something else."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Request)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.folder = folder
        self.asked = []
        self.answers = {}
        self.reached = threading.Event()
        self.release = threading.Event()

    def handle_error(self, request, client_address):
        """Clients that go away in the middle are what is tested."""


class Request(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        name = self.path.rpartition("/")[2]
        packed = (self.server.folder / name).read_bytes()
        self.server.answers.get(name, whole)(self, packed)

    def begin(self, length=None, **headers):
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *arguments):
        """Nothing: what the server sees is in `asked`."""


def whole(request, packed):
    request.begin(len(packed))
    request.wfile.write(packed)


def half(request, packed):
    """The connection ends in the middle of the file."""
    request.begin(len(packed))
    request.wfile.write(packed[: len(packed) // 2])


def half_without_a_word(request, packed):
    """As a proxy does that has cut the file off and believes that it is whole."""
    whole(request, packed[: len(packed) // 2])


def absent(request, packed):
    request.send_error(404)


def page(request, packed):
    whole(request, b"<!doctype html><title>Please log in</title>")


def altered(request, packed):
    content = bytearray(gzip.decompress(packed))
    content[-1] ^= 1
    whole(request, gzip.compress(content, 1))


def endless(request, packed):
    request.begin()
    while True:
        request.wfile.write(bytes(2**16))


def unzipped_on_the_way(request, packed):
    """As a server does that takes what it stores for what it has zipped for the way."""
    request.begin(len(packed), Content_Encoding="gzip")
    request.wfile.write(packed)


def stalled(request, packed):
    """Half the file, and then nothing until the test goes on."""
    request.begin(len(packed))
    request.wfile.write(packed[: len(packed) // 2])
    request.wfile.flush()
    request.server.reached.set()
    request.server.release.wait(60)


@contextmanager
def serving(folder):
    with Mirror(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.release.set()
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def published(fashion_mnist, tmp_path_factory):
    """The four files, gzipped as a mirror has them, and beside them unzipped."""
    folder = tmp_path_factory.mktemp("published")
    for file in FILES:
        path = file.within(fashion_mnist)
        content = path.read_bytes()
        packed, plain = (content, gzip.decompress(content)) if path.suffix else (gzip.compress(content, 1), content)
        (folder / f"{file.name}.gz").write_bytes(packed)
        (folder / file.name).write_bytes(plain)
    return folder


@pytest.fixture
def mirror(published):
    with serving(published) as server:
        yield server


@pytest.fixture
def other(published):
    """A second mirror."""
    with serving(published) as server:
        yield server


@pytest.fixture
def dead():
    """An address where nobody listens, and nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


@pytest.fixture
def cache(tmp_path, monkeypatch, mirror):
    """The folder of the cache, empty, on a machine that has the files nowhere and one mirror to get them from."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PLAYGROUND_MIRROR", mirror.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("PLAYGROUND_DATA", raising=False)
    monkeypatch.setattr(files, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(download, "MIRRORS", ())
    folder = files.cache()
    assert tmp_path in folder.parents
    return folder


@pytest.fixture
def start(cache, tmp_path):
    """Starts `playground` in a process of its own, in the same circumstances."""
    started = []

    def start(*arguments, largest=None, **keywords):
        told = {"system": str(files.SYSTEM), "mirrors": download.MIRRORS, "largest": largest}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=tmp_path,
            env={**os.environ, "TOLD": json.dumps(told)},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **keywords},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def has(folder, published, *names):
    """Whether a folder has these files as they were published, and besides them nothing but temporary folders."""
    kept = sorted(path.name for path in folder.iterdir() if path.is_file())
    return [name.removesuffix(".gz") for name in kept] == sorted(name.removesuffix(".gz") for name in names) and all(
        (folder / name).read_bytes() == (published / name).read_bytes() for name in kept
    )


def copy(published, folder, *names):
    """Put files where they are looked for. That of the training images is unzipped, and a link: it is large."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == IMAGES:
            plain = name.removesuffix(".gz")
            os.link(published / plain, folder / plain)
        else:
            shutil.copy(published / name, folder)


def temporary(folder):
    return list(folder.glob("partial-*"))


# A fetch that goes well


@pytest.mark.parametrize("end", ["", "/"])
def test_a_mirror_of_one_s_own_is_asked_for_the_four_files_in_its_folder(end, cache, mirror, published, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_MIRROR", f"{mirror.url}/pub{end}")
    assert download.fetch() == files.locate() == cache
    assert mirror.asked == [f"/pub/fashion-mnist/{name}" for name in NAMES]
    assert has(cache, published, *NAMES)
    assert not temporary(cache)


def test_where_there_is_none_the_public_mirrors_are_asked_in_their_order(cache, mirror, dead, published, monkeypatch):
    assert all(address.startswith("http") and address.endswith("/") for address in download.MIRRORS)
    monkeypatch.delenv("PLAYGROUND_MIRROR")
    monkeypatch.setattr(download, "MIRRORS", (dead, f"{mirror.url}/first/", f"{mirror.url}/second/"))
    download.fetch()
    assert mirror.asked == [f"/first/{name}" for name in NAMES]
    assert has(cache, published, *NAMES)


def test_data_are_downloaded_when_they_are_loaded_and_only_once(cache, mirror):
    assert load(rows=2, test_rows=3).train[1].tolist() == [9, 0]
    assert load(rows=2, test_rows=3).test[1].tolist() == [9, 2, 1]
    assert len(mirror.asked) == 4


def test_only_the_files_that_are_not_there_are_downloaded(cache, mirror, published):
    copy(published, cache, IMAGES, TEST_IMAGES)
    download.fetch()
    assert [path.rpartition("/")[2] for path in mirror.asked] == [LABELS, TEST_LABELS]
    assert has(cache, published, *NAMES)


def test_a_file_that_the_server_sends_as_zipped_for_the_way_is_kept_unzipped(cache, mirror, published):
    copy(published, cache, IMAGES, TEST_IMAGES, TEST_LABELS)
    mirror.answers[LABELS] = unzipped_on_the_way
    download.fetch()
    assert (cache / "train-labels-idx1-ubyte").read_bytes() == gzip.decompress((published / LABELS).read_bytes())
    assert not (cache / LABELS).exists()
    assert load(rows=3).train[1].tolist() == [9, 0, 0]


def test_a_wrong_file_in_the_cache_is_named_and_fetched_again_when_it_is_loaded(cache, mirror, published, caplog):
    copy(published, cache, *NAMES)
    (cache / LABELS).write_bytes((published / LABELS).read_bytes()[:1000])
    assert load(rows=3).train[1].tolist() == [9, 0, 0]
    (record,) = caplog.records
    assert record.getMessage() == f"{cache / LABELS}: the gzip file is cut off; it was removed"
    assert mirror.asked == [f"/fashion-mnist/{LABELS}"]
    assert has(cache, published, *NAMES)


def test_a_wrong_file_does_not_stay_in_the_cache_where_it_cannot_be_fetched_again(cache, published, dead, monkeypatch):
    copy(published, cache, *NAMES)
    (cache / LABELS).write_bytes((published / LABELS).read_bytes()[:1000])
    monkeypatch.setenv("PLAYGROUND_MIRROR", dead)
    with pytest.raises(RequestError, match="cannot fetch Fashion-MNIST"):
        load()
    assert has(cache, published, IMAGES, TEST_IMAGES, TEST_LABELS)
    assert files.locate() is None


# Mirrors that do not do what they should

FAULTS = {
    half: "IncompleteRead",
    half_without_a_word: "the gzip file is cut off",
    absent: "HTTP 404",
    page: "it is not a gzip file",
    altered: "it has the right form, but it is not Fashion-MNIST's",
    endless: "it sends more than the file can have",
}


@pytest.mark.parametrize(("fault", "what"), FAULTS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_what_a_mirror_does_wrong_is_not_kept_and_the_next_one_is_asked(
    fault, what, cache, mirror, other, published, monkeypatch, caplog
):
    copy(published, cache, IMAGES, TEST_IMAGES)
    mirror.answers[TEST_LABELS] = fault
    monkeypatch.setattr(download, "MIRRORS", (f"{other.url}/",))
    download.fetch()
    assert mirror.asked == [f"/fashion-mnist/{LABELS}", f"/fashion-mnist/{TEST_LABELS}"]
    assert other.asked == [f"/{TEST_LABELS}"]
    assert has(cache, published, *NAMES)
    assert not temporary(cache)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{TEST_LABELS} from {mirror.url.removeprefix('http://')}: ")
    assert what in record.getMessage()


@pytest.mark.parametrize(("fault", "what"), FAULTS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_what_the_last_mirror_does_wrong_is_said_and_not_kept(fault, what, cache, mirror, published):
    copy(published, cache, IMAGES, TEST_IMAGES)
    mirror.answers[TEST_LABELS] = fault
    with pytest.raises(RequestError) as caught:
        download.fetch()
    assert f"{TEST_LABELS} from {mirror.url.removeprefix('http://')}: " in str(caught.value)
    assert what in str(caught.value)
    assert has(cache, published, IMAGES, LABELS, TEST_IMAGES)
    assert not temporary(cache)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1", "nonsense", "http://", "http://[", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_is_a_mirror_that_fails(address, cache, published, monkeypatch):
    copy(published, cache, LABELS, TEST_LABELS)
    monkeypatch.setenv("PLAYGROUND_MIRROR", address)
    with pytest.raises(RequestError, match=f"cannot fetch Fashion-MNIST: {IMAGES} from ") as caught:
        download.fetch()
    assert len(str(caught.value).splitlines()) <= 2


def test_the_password_in_an_address_is_not_shown(cache, mirror, published, monkeypatch):
    copy(published, cache, *NAMES[:3])
    mirror.answers[TEST_LABELS] = absent
    host = mirror.url.removeprefix("http://")
    monkeypatch.setenv("PLAYGROUND_MIRROR", f"http://user:secret@{host}")
    with pytest.raises(RequestError, match=f"{TEST_LABELS} from {host}: HTTP 404") as caught:
        download.fetch()
    assert "secret" not in str(caught.value)


# The command


def test_the_command_fetches_the_data_and_prints_where_it_is(start, cache, mirror, published):
    code, out, err = ended(start("data", "fetch", "fashion-mnist"))
    host = mirror.url.removeprefix("http://")
    assert (code, out) == (0, f"{cache}\n")
    assert err.splitlines() == [f"fetched {name} from {host}" for name in NAMES]
    assert has(cache, published, *NAMES)
    # Again, and it is here.
    assert ended(start("data", "fetch", "fashion-mnist")) == (0, f"{cache}\n", "")
    assert len(mirror.asked) == 4
    rows = {row["name"]: row for row in json.loads(ended(start("data", "list", "--json"))[1])}
    assert (rows["fashion-mnist"]["state"], rows["fashion-mnist"]["path"]) == ("here", str(cache))


@pytest.mark.parametrize("command", [["data", "fetch", "fashion-mnist"], ["run", "--data", "fashion-mnist"]])
def test_without_a_network_the_command_names_the_cause_and_the_ways_in_a_line(command, call, cache, dead, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_MIRROR", dead)
    done = call(*command, *(["--model", "mlp"] if command[0] == "run" else []))
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith(f"error: cannot fetch Fashion-MNIST: {IMAGES} from 127.0.0.1:")
    for word in (
        "Connection refused",
        "dataset-fashion-mnist",
        "$PLAYGROUND_DATA/fashion-mnist",
        "path=",
        "'playground data fetch fashion-mnist' on a machine with a network",
    ):
        assert word in line
    assert not list(cache.iterdir())


def test_data_that_are_not_here_are_listed_so_and_looking_downloads_nothing(start, mirror):
    rows = {row["name"]: row for row in json.loads(ended(start("data", "list", "--json"))[1])}
    assert (rows["fashion-mnist"]["state"], rows["fashion-mnist"]["path"]) == ("not here", None)
    code, out, err = ended(start("data", "path", "fashion-mnist"))
    assert (code, out) == (2, "")
    assert "'playground data fetch fashion-mnist' brings it here" in err
    assert mirror.asked == []


def test_a_terminal_gets_a_bar_instead_of_lines(start, cache, published, monkeypatch):
    copy(published, cache, IMAGES, LABELS, TEST_LABELS)
    monkeypatch.setenv("TERM", "xterm")
    terminal, theirs = os.openpty()
    process = start("data", "fetch", "fashion-mnist", stderr=theirs)
    os.close(theirs)
    shown = b""
    # Linux says by an error that nobody writes any more.
    with suppress(OSError):
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    assert ended(process)[:2] == (0, f"{cache}\n")
    assert TEST_IMAGES.encode() in shown
    assert b"4.4/4.4 MB" in shown
    assert b"\x1b[" in shown
    assert b"fetched" not in shown
    assert has(cache, published, *NAMES)


# Fetches that are broken off, and two at once


def test_an_interrupted_fetch_exits_with_130_and_keeps_nothing_half(start, cache, mirror, published):
    mirror.answers[TEST_IMAGES] = stalled
    process = start("data", "fetch", "fashion-mnist")
    assert mirror.reached.wait(60)
    assert temporary(cache)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "error: interrupted"
    assert not temporary(cache)
    assert has(cache, published, IMAGES, LABELS)
    assert files.locate() is None


def test_a_killed_fetch_leaves_nothing_that_is_taken_for_data_and_a_later_one_ends_well(
    start, cache, mirror, published
):
    mirror.answers[IMAGES] = stalled
    process = start("data", "fetch", "fashion-mnist")
    assert mirror.reached.wait(60)
    process.kill()
    assert ended(process)[0] == -signal.SIGKILL
    (left,) = temporary(cache)
    assert (left / IMAGES).exists()
    assert has(cache, published)
    assert files.locate() is None

    del mirror.answers[IMAGES]
    assert ended(start("data", "fetch", "fashion-mnist"))[:2] == (0, f"{cache}\n")
    assert has(cache, published, *NAMES)
    # It might belong to a fetch under way.
    assert temporary(cache) == [left]


@pytest.mark.parametrize(("age", "stays"), [(60 * 60, True), (3 * 24 * 60 * 60, False)])
def test_what_a_killed_fetch_has_left_is_removed_when_nobody_can_be_writing_to_it(age, stays, cache, mirror, published):
    copy(published, cache, *NAMES[:3])
    left = cache / "partial-killed"
    copy(published, left, LABELS)
    for path in (left / LABELS, left):
        os.utime(path, (time.time() - age,) * 2)
    download.fetch()
    assert left.exists() == stays
    assert has(cache, published, *NAMES)


def test_two_fetches_at_once_both_end_well(start, cache, mirror, published):
    both = threading.Barrier(2)

    def together(request, packed):
        both.wait(60)
        whole(request, packed)

    mirror.answers[LABELS] = mirror.answers[TEST_LABELS] = together
    copy(published, cache, IMAGES)
    # Both find it, and both find that it is wrong.
    (cache / TEST_IMAGES).write_bytes((published / TEST_IMAGES).read_bytes()[:1000])
    processes = [start("data", "fetch", "fashion-mnist") for _ in range(2)]
    for process in processes:
        code, out, err = ended(process)
        assert (code, out) == (0, f"{cache}\n"), err
    assert has(cache, published, *NAMES)
    assert not temporary(cache)


# A cache that cannot be written to


def test_a_file_where_the_cache_s_folder_should_be_is_named(cache, tmp_path, mirror):
    (tmp_path / "cache").touch()
    with pytest.raises(RequestError) as caught:
        download.fetch()
    message = str(caught.value)
    assert message.startswith(f"cannot keep Fashion-MNIST in {cache}: Not a directory; ")
    assert "XDG_CACHE_HOME" in message
    assert len(message.splitlines()) == 1
    assert mirror.asked == []


def test_a_file_where_the_folder_itself_should_be_is_named_and_left(cache):
    cache.parent.mkdir(parents=True)
    cache.write_text("mine")
    with pytest.raises(RequestError, match=rf"^cannot keep Fashion-MNIST in {cache}: File exists; "):
        download.fetch()
    assert cache.read_text() == "mine"


def test_a_disk_that_is_full_is_not_taken_for_the_mirror_s_fault(start, cache, mirror, other, published, monkeypatch):
    monkeypatch.setattr(download, "MIRRORS", (f"{other.url}/",))
    code, out, err = ended(start("data", "fetch", "fashion-mnist", largest=1_000_000))
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"error: cannot keep Fashion-MNIST in {cache}: File too large; ")
    assert other.asked == []
    assert has(cache, published)
    assert not temporary(cache)
