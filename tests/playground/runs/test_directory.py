"""RunDirectory: a name of its own, whole files, and lines that are on disk when they are written."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from playground.errors import RequestError
from playground.runs.directory import RunDirectory, finite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAN, INF = float("nan"), float("inf")


def strict(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    made = RunDirectory.create(tmp_path / "runs", {"experiment": {"seed": 3}})
    yield made
    made.close()


# Making one


def test_a_new_directory_is_named_by_the_time_and_six_hex_digits(directory: RunDirectory, tmp_path: Path) -> None:
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", directory.path.name)
    assert directory.path.parent == tmp_path / "runs"


def test_run_json_is_there_from_the_start_with_the_name_and_the_time(directory: RunDirectory) -> None:
    facts = strict((directory.path / "run.json").read_text(encoding="utf-8"))
    assert facts["name"] == directory.path.name
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["created"])
    assert facts["experiment"] == {"seed": 3}


def test_nothing_but_run_json_and_an_empty_record_is_there_at_first(directory: RunDirectory) -> None:
    assert names(directory.path) == {"run.json", "metrics.jsonl"}
    assert (directory.path / "metrics.jsonl").read_bytes() == b""


def test_a_name_that_is_taken_is_left_to_who_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        """A clock that stands still."""

        @staticmethod
        def now(zone: object) -> Any:
            return moment

    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    monkeypatch.setattr("playground.runs.directory.datetime", Fixed)
    draws = iter(["aaaaaa", "aaaaaa", "aaaaaa", "bbbbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(draws))
    first, second = (RunDirectory.create(tmp_path, {"number": number}) for number in (1, 2))
    first.close()
    second.close()
    assert names(tmp_path) == {"20260304T050607Z-aaaaaa", "20260304T050607Z-bbbbbb"}
    for number, one in ((1, first), (2, second)):
        assert strict((one.path / "run.json").read_text(encoding="utf-8"))["number"] == number


def test_threads_that_start_at_once_get_a_directory_each(tmp_path: Path) -> None:
    count = 16
    together = threading.Barrier(count)

    def make(number: int) -> Path:
        together.wait()
        made = RunDirectory.create(tmp_path / "runs", {"number": number})
        made.append({"step": number})
        made.close()
        return made.path

    with ThreadPoolExecutor(count) as pool:
        paths = list(pool.map(make, range(count)))
    assert len(set(paths)) == count
    for number, path in enumerate(paths):
        assert strict((path / "run.json").read_text(encoding="utf-8"))["number"] == number
        assert (path / "metrics.jsonl").read_text(encoding="utf-8") == f'{{"step": {number}}}\n'


def test_a_place_that_is_a_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine", encoding="utf-8")
    with pytest.raises(RequestError, match=r"cannot make a run in '.*runs': .*--out"):
        RunDirectory.create(tmp_path / "runs", {})
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("there_before", [True, False])
def test_where_run_json_cannot_be_written_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_before: bool
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    root = tmp_path / "a" / "runs"
    if there_before:
        root.mkdir(parents=True)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RequestError, match="No space left on device"):
        RunDirectory.create(root, {})
    assert root.exists() is there_before
    assert names(tmp_path) == ({"a"} if there_before else set())
    if there_before:
        assert names(root) == set()


# Records


def test_a_line_is_on_disk_as_soon_as_it_is_appended(directory: RunDirectory) -> None:
    with (directory.path / "metrics.jsonl").open(encoding="utf-8") as reader:
        for step in range(5):
            directory.append({"step": step, "train_loss": step / 4})
            assert reader.read() == f'{{"step": {step}, "train_loss": {step / 4}}}\n'


def test_a_loss_comes_back_with_every_bit(directory: RunDirectory) -> None:
    losses = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    for loss in losses:
        directory.append({"train_loss": loss})
    lines = (directory.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [strict(line)["train_loss"].hex() for line in lines] == [loss.hex() for loss in losses]


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_number_that_is_not_finite_is_null(directory: RunDirectory, value: float) -> None:
    directory.append({"step": 1, "train_loss": value})
    assert strict((directory.path / "metrics.jsonl").read_text(encoding="utf-8")) == {"step": 1, "train_loss": None}


def test_a_record_has_no_line_break_in_it(directory: RunDirectory) -> None:
    directory.append({"text": "one\ntwo\r\u2028three"})
    (line,) = (directory.path / "metrics.jsonl").read_bytes().splitlines()
    assert strict(line.decode())["text"] == "one\ntwo\r\u2028three"


def test_numbers_that_are_not_finite_are_found_however_deep_they_lie() -> None:
    assert finite({"a": [1, NAN, {"b": (INF, 2.5, "nan")}], "c": None, "d": True}) == {
        "a": [1, None, {"b": [None, 2.5, "nan"]}],
        "c": None,
        "d": True,
    }


# Other files


def test_a_summary_is_written_whole_and_replaces_the_one_before(directory: RunDirectory) -> None:
    directory.summarise({"status": "done", "loss": NAN})
    directory.summarise({"status": "done", "loss": 0.5})
    assert strict((directory.path / "summary.json").read_text(encoding="utf-8")) == {"status": "done", "loss": 0.5}
    assert names(directory.path) == {"run.json", "metrics.jsonl", "summary.json"}


def test_a_summary_that_cannot_be_finished_leaves_the_one_before_and_no_other_file(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.summarise({"status": "done"})

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            directory.summarise({"status": "failed"})
    assert strict((directory.path / "summary.json").read_text(encoding="utf-8")) == {"status": "done"}
    assert names(directory.path) == {"run.json", "metrics.jsonl", "summary.json"}


def test_a_file_is_saved_under_its_name_only_when_it_is_whole(directory: RunDirectory) -> None:
    def write(path: Path) -> None:
        path.write_text("half", encoding="utf-8")
        assert not (directory.path / "figure.svg").exists()
        path.write_text("whole", encoding="utf-8")

    directory.save("figure.svg", write)
    assert (directory.path / "figure.svg").read_text(encoding="utf-8") == "whole"


@pytest.mark.parametrize("error", [RuntimeError("no ink"), KeyboardInterrupt()])
def test_a_file_that_could_not_be_written_leaves_nothing(directory: RunDirectory, error: BaseException) -> None:
    def write(path: Path) -> None:
        path.write_text("half", encoding="utf-8")
        raise error

    with pytest.raises(type(error)):
        directory.save("figure.svg", write)
    assert names(directory.path) == {"run.json", "metrics.jsonl"}


def test_the_log_grows_by_a_line_with_the_time(directory: RunDirectory) -> None:
    directory.log("first\n")
    directory.log("second, of\ntwo lines")
    first, second, third = (directory.path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 first", first)
    assert second.endswith("+00:00 second, of")
    assert third == "two lines"


def test_closing_twice_does_no_harm(directory: RunDirectory) -> None:
    directory.append({"step": 0})
    directory.close()
    directory.close()
    assert (directory.path / "metrics.jsonl").read_text(encoding="utf-8") == '{"step": 0}\n'
