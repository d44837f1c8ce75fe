"""`playground scale`: the table as a user sees it, its record, its flags, and the ways in which it can end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = re.compile(r"scale-\d{8}T\d{6}Z-[0-9a-f]{6}")

HEADINGS = (
    *("devices", "batch", "lr", "train loss", "sec/epoch", "samples/s", "speed-up", "efficiency"),
    *("serial fraction", "where the time went"),
)

QUICK = ("scale", "--backend", "manual", "--steps", 3, "--batch-size", 50, "--progress", "none")
"""Three timed steps on airfoil after five of warm-up."""

REFUSED = ("scale", "--backend", "manual", "--steps", 3, "--progress", "none")


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of devices is so many replicas on the CPU, whatever the machine has."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda *_, **__: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def plugin(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> Callable[[str], None]:
    """Lets this process find a plugin of this source."""
    return lambda source: in_process_plugins(install_plugin("optim-scaled", source))


def strict(text: str) -> Any:
    """JSON as the standard has it: Python alone reads NaN and Infinity."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read(path: Path) -> Any:
    return strict(path.read_text(encoding="utf-8"))


def cells(out: str) -> list[dict[str, str]]:
    """The rows of the printed table by their headings."""
    first, *others = out.splitlines()
    starts = [first.index(heading) for heading in HEADINGS]
    rows = [line for line in others if re.match(r"\d+ +\d+ ", line)]
    return [
        {
            heading: row[start:end].strip()
            for heading, start, end in zip(HEADINGS, starts, [*starts[1:], None], strict=True)
        }
        for row in rows
    ]


def runs_of(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if not path.name.startswith("scale-"))


def table_of(root: Path) -> Path:
    (found,) = [path for path in root.iterdir() if path.name.startswith("scale-")]
    return found


# The main job


@dataclass(frozen=True)
class Job:
    """A table of two numbers of devices and two batch sizes, made by the installed command in a process of its own."""

    out: str
    err: str
    cwd: Path

    @property
    def table(self) -> Path:
        return table_of(self.cwd / "runs")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    cwd = tmp_path_factory.mktemp("job")
    sizes = ("--batch-size", "32", "--batch-size", "64")
    done = subprocess.run(
        [
            Path(sys.executable).with_name("playground"),
            "scale",
            "-b",
            "manual",
            "--devices",
            "2",
            "--steps",
            "4",
            *sizes,
        ],
        cwd=cwd,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Job(done.stdout, done.stderr, cwd)


def test_the_table_has_a_row_a_combination_and_one_device_is_added_as_the_baseline(job: Job) -> None:
    assert job.out.splitlines()[0].split() == " ".join(HEADINGS).split()
    rows = cells(job.out)
    assert [(row["devices"], row["batch"]) for row in rows] == [("1", "32"), ("2", "32"), ("1", "64"), ("2", "64")]
    for row in rows:
        assert row["lr"] == "0.01"
        assert re.fullmatch(r"0\.\d{3}", row["train loss"])
        assert re.fullmatch(r"\d+\.\d{3}", row["sec/epoch"])
        assert re.fullmatch(r"\d+", row["samples/s"])
        assert re.search(r"\bcompute \d+%", row["where the time went"])
    for row in rows[::2]:
        assert (row["speed-up"], row["efficiency"], row["serial fraction"]) == ("1.00", "100%", "-")
    for row in rows[1::2]:
        assert re.fullmatch(r"\d+\.\d\d", row["speed-up"])
        assert re.fullmatch(r"\d+%", row["efficiency"])
        assert re.fullmatch(r"-?\d+\.\d\d", row["serial fraction"])


def test_the_baselines_are_stated_on_stdout_with_device_threads_and_batch(job: Job) -> None:
    said = [line for line in job.out.splitlines() if line.startswith("baseline")]
    assert said == [
        f"baseline of batches of {size}: manual on one device (cpu, 2 threads), a speed-up of 1" for size in (32, 64)
    ]


def test_what_is_being_run_is_said_on_stderr_and_where_the_table_is(job: Job) -> None:
    lines = job.err.splitlines()
    assert [line for line in lines if " of 4: " in line] == [
        "1 of 4: 1 device, batches of 32",
        "2 of 4: 2 devices, batches of 32",
        "3 of 4: 1 device, batches of 64",
        "4 of 4: 2 devices, batches of 64",
    ]
    assert lines[-1] == f"saved in runs/{job.table.name}"


def test_every_combination_is_a_run_like_any_other_named_in_the_table(job: Job) -> None:
    assert TABLE.fullmatch(job.table.name)
    rows = read(job.table / "scale.json")["rows"]
    named = [name for row in rows for name in row["runs"]]
    assert sorted(named) == [path.name for path in runs_of(job.cwd / "runs")]
    assert len(set(named)) == 4
    for row in rows:
        directory = job.cwd / "runs" / row["runs"][0]
        assert {path.name for path in directory.iterdir()} == {
            *("run.json", "metrics.jsonl", "summary.json", "figure.svg")
        }
        facts, summary = read(directory / "run.json"), read(directory / "summary.json")
        assert facts["experiment"]["backend"]["devices"] == row["devices"]
        assert facts["experiment"]["batch_size"] == row["batch_size"]
        assert facts["devices"] == summary["devices"] == row["on"] == ["cpu"] * row["devices"]
        assert facts["threads"] * row["devices"] == row["threads"]
        # Five steps of warm-up before the four that are timed.
        assert (summary["status"], summary["steps"]) == ("done", 9)
        assert summary["metrics"] == row["metrics"]
        assert summary["samples_per_sec"] == row["samples_per_sec"]
        assert summary["sec_per_epoch"] == row["sec_per_epoch"]


def test_the_record_of_the_table_holds_what_was_printed(job: Job) -> None:
    assert {path.name for path in job.table.iterdir()} == {"scale.json", "figure.svg"}
    kept = read(job.table / "scale.json")
    for row, printed in zip(kept["rows"], cells(job.out), strict=True):
        assert printed["samples/s"] == f"{row['samples_per_sec']:.0f}"
        assert printed["speed-up"] == f"{row['speed_up']:.2f}"
        assert printed["efficiency"] == f"{row['efficiency']:.0%}"
    assert kept["notes"] == job.out.splitlines()[5:]


def test_the_figures_of_the_table_agree_with_each_other(job: Job) -> None:
    rows = read(job.table / "scale.json")["rows"]
    for base, other in (rows[:2], rows[2:]):
        assert (base["speed_up"], base["baseline"], other["baseline"]) == (1, True, False)
        assert other["speed_up"] == other["samples_per_sec"] / base["samples_per_sec"]
        assert other["efficiency"] == other["speed_up"] / 2
        assert other["serial_fraction"] == pytest.approx(2 / other["speed_up"] - 1)


def test_the_figure_has_a_measured_line_for_each_batch_size_and_the_ideals(job: Job) -> None:
    text = (job.table / "figure.svg").read_text(encoding="utf-8")
    svg = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(text)
    assert root.tag == f"{svg}svg"
    for name in ("measured_0", "measured_1", "ideal_0", "ideal_1"):
        path = root.find(f".//{svg}g[@id='{name}']/{svg}path")
        assert path is not None, name
        # From one device to two.
        assert re.findall("[A-Z]", path.attrib["d"]) == ["M", "L"], name
    assert root.find(f".//{svg}g[@id='measured_2']") is None


# --json


def test_json_prints_one_object_and_nothing_else_on_stdout(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call(*QUICK, "--devices", "1,2", "--json")
    assert done.code == 0
    found = strict(done.out)
    assert found.keys() == {
        *("scaling", "scale_lr", "warm_up", "repeats", "stopped", "directory", "rows", "notes"),
    }
    for row in found["rows"]:
        assert row.keys() == {
            *("devices", "on", "threads", "batch_size", "lr", "status", "metrics", "sec_per_epoch"),
            *("samples_per_sec", "speed_up", "efficiency", "serial_fraction", "time", "baseline", "runs", "errors"),
        }
        assert row["time"].keys() == {"feed", "compute", "communicate", "update", "other"}
    settings = [found[key] for key in ("scaling", "scale_lr", "warm_up", "repeats", "stopped")]
    assert settings == ["strong", False, 5, 1, False]
    kept = read(tmp_path / found["directory"] / "scale.json")
    assert kept.pop("created").endswith("+00:00")
    assert kept == found


# Devices and batch sizes


def test_devices_are_sorted_and_merged(call: Callable[..., Any], tmp_path: Path) -> None:
    found = strict(call(*QUICK, "--devices", "2, 1,2", "--json").out)
    assert [row["devices"] for row in found["rows"]] == [1, 2]
    assert len(runs_of(tmp_path / "runs")) == 2


def test_batch_sizes_are_merged_and_keep_their_order(call: Callable[..., Any]) -> None:
    found = strict(call(*QUICK, "--batch-size", 20, "--batch-size", 50, "--devices", 1, "--json").out)
    assert [row["batch_size"] for row in found["rows"]] == [50, 20]


def test_without_a_batch_size_it_is_that_of_the_data(call: Callable[..., Any]) -> None:
    found = strict(call("scale", "--backend", "manual", "--steps", 3, "--devices", 1, "--json").out)
    assert [row["batch_size"] for row in found["rows"]] == [10]


@pytest.mark.parametrize(
    ("flags", "batches"), [((), [6, 6, 6]), (("--scaling", "strong"), [6, 6, 6]), (("--scaling", "weak"), [6, 12, 18])]
)
def test_strong_scaling_keeps_the_batch_and_weak_scaling_multiplies_it(
    call: Callable[..., Any], tmp_path: Path, flags: tuple[str, ...], batches: list[int]
) -> None:
    done = call("scale", "-b", "manual", "--steps", 3, "--batch-size", 6, "--devices", "1,2,3", *flags, "--json")
    rows = strict(done.out)["rows"]
    assert [row["batch_size"] for row in rows] == batches
    for row in rows:
        directory = tmp_path / "runs" / row["runs"][0]
        assert read(directory / "run.json")["experiment"]["batch_size"] == row["batch_size"]
        assert read(directory / "summary.json")["samples"] == 8 * row["batch_size"]
    assert ("weak scaling: the batch grows with the devices" in strict(done.out)["notes"]) == ("weak" in flags)


@pytest.mark.parametrize(
    "flags", [("--scaling", "weak", "--batch-size", 1000), ("--scale-lr", "--batch-size", 10, "--batch-size", 2000)]
)
def test_a_batch_that_cannot_grow_for_want_of_rows_is_refused(
    call: Callable[..., Any], tmp_path: Path, flags: tuple[Any, ...]
) -> None:
    done = call("scale", "-b", "manual", "--steps", 3, "--devices", 2, *flags)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("error: there are 1500 training rows, and ")
    assert ", batches of 2000 are more: " in done.err
    assert not (tmp_path / "runs").exists()


def test_a_batch_of_more_than_all_rows_is_noted_of_its_row(call: Callable[..., Any]) -> None:
    sizes = ("--batch-size", 100, "--batch-size", 2000)
    done = call("scale", "-b", "manual", "--steps", 3, "--devices", 1, *sizes)
    note = "a batch of 2000 is more than the 1500 training rows: every step sees them all"
    assert f"1 device, batches of 2000: {note}" in done.out.splitlines()


# The learning rate


def rates(directory: Path) -> set[float]:
    return {json.loads(line)["lr"] for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize(
    ("flags", "lrs"),
    [
        (("--scaling", "weak"), [0.125] * 4),
        (("--scale-lr",), [0.125, 0.125, 0.25, 0.25]),
        (("--scale-lr", "--scaling", "weak"), [0.125, 0.25, 0.25, 0.5]),
    ],
)
def test_the_learning_rate_is_scaled_by_the_batch_only_where_that_is_asked_for(
    call: Callable[..., Any], tmp_path: Path, flags: tuple[str, ...], lrs: list[float]
) -> None:
    done = call(
        *("scale", "-b", "manual", "--steps", 3, "--lr", 0.125, "--devices", "1,2"),
        *("--batch-size", 10, "--batch-size", 20, "--progress", "none", *flags),
    )
    kept = read(table_of(tmp_path / "runs") / "scale.json")
    assert [row["lr"] for row in kept["rows"]] == lrs
    assert [rates(tmp_path / "runs" / row["runs"][0]) for row in kept["rows"]] == [{lr} for lr in lrs]
    assert [row["lr"] for row in cells(done.out)] == [str(lr) for lr in lrs]
    assert kept["scale_lr"] == ("--scale-lr" in flags)
    said = [line for line in done.out.splitlines() if "learning rate" in line]
    if "--scale-lr" in flags:
        assert said == ["--scale-lr: the learning rate grows with the batch, from 0.125 at 10 rows"]
    else:
        assert said == ["the learning rate is the same in every row (--scale-lr lets it grow with the batch)"]


NO_LR = """
from playground import Optimizer, hookimpl

def steady(params):
    from torch.optim import SGD
    return SGD(params, lr=0.01)

def worded(params, lr: str = "small"):
    from torch.optim import SGD
    return SGD(params, lr=0.01)

@hookimpl
def playground_optimizers():
    return [Optimizer("steady", steady), Optimizer("worded", worded)]
"""


@pytest.mark.parametrize("optimizer", ["steady", "worded"])
def test_an_optimizer_without_a_learning_rate_is_refused_only_where_it_is_to_be_scaled(
    call: Callable[..., Any], plugin: Callable[[str], None], tmp_path: Path, optimizer: str
) -> None:
    plugin(NO_LR)
    refused = call(*QUICK, "--optimizer", optimizer, "--scale-lr")
    assert (refused.code, refused.out) == (2, "")
    assert "has no learning rate that could be scaled" in refused.err
    assert optimizer in refused.err
    assert list(tmp_path.iterdir()) == []
    done = call(*QUICK, "--optimizer", optimizer)
    assert done.code == 0
    assert [row["lr"] for row in cells(done.out)] == ["-", "-"]
    assert "learning rate" not in done.out


# Steps, warm-up, repeats


@pytest.mark.parametrize(
    ("flags", "steps", "warm_up"),
    [
        (("--steps", 3), 8, 5),
        (("--steps", 3, "--warm-up", 0), 3, 0),
        (("--steps", 3, "--warm-up", 2), 5, 2),
        # Two epochs of 20 rows are four steps of 10.
        (("--epochs", 2), 4, 0),
        (("--epochs", 2, "--warm-up", 1), 4, 1),
    ],
)
def test_steps_come_after_the_warm_up_and_an_epoch_has_none(
    call: Callable[..., Any], tmp_path: Path, flags: tuple[Any, ...], steps: int, warm_up: int
) -> None:
    done = call(
        *("scale", "-b", "manual", "--data", "linear-regression:rows=20", "--batch-size", 10, "--devices", "1,2"),
        *(*flags, "--json"),
    )
    assert strict(done.out)["warm_up"] == warm_up
    assert [read(run / "summary.json")["steps"] for run in runs_of(tmp_path / "runs")] == [steps] * 2


def test_repeats_are_rounds_over_all_combinations(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call(*QUICK, "--devices", "1,2", "--repeats", 2, "--json", "--progress", "lines")
    assert re.findall(r"^\d of 4: \d device", done.err, re.MULTILINE) == [
        *("1 of 4: 1 device", "2 of 4: 2 device", "3 of 4: 1 device", "4 of 4: 2 device"),
    ]
    found = strict(done.out)
    assert found["repeats"] == 2
    for row in found["rows"]:
        speeds = [read(tmp_path / "runs" / name / "summary.json")["samples_per_sec"] for name in row["runs"]]
        assert len(speeds) == 2
        assert row["samples_per_sec"] == pytest.approx(sum(speeds) / 2)


# Refusals

FIXED = """
from playground import Backend, hookimpl

def fixed():
    from playground_plugins.backends.single import Single
    return Single()

@hookimpl
def playground_backends():
    return [Backend("fixed", fixed)]
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--devices", "0"), r"numbers of devices, such as 1,2,4, not 0"),
        (("--devices=-1",), r"not -1"),
        (("--devices", "a"), r"--devices .* not 'a'"),
        (("--devices", "auto"), r"not 'auto'"),
        (("--devices", "cpu,cpu"), r"not 'cpu,cpu'"),
        (("--devices", ""), r"not ''"),
        (("--devices", "1,"), r"not '1,'"),
        (("--devices", "1.5"), r"not '1\.5'"),
        (("--devices", "1,257"), r"devices=257 is out of range"),
        (("--devices", "1,2", "--backend", "single"), r"single trains on one device, not 2; .*--backend manual"),
        (("--backend", "single"), r"single trains on one device, not 2"),
        (("--batch-size", "0"), r"batch-size must be a whole number, 1 or more, not 0"),
        (("--batch-size", "10", "--batch-size", "-5"), r"batch-size must be .* not -5"),
        (("--batch-size", "ten"), r"'ten' is not a valid integer"),
        (("--steps", "0"), r"steps must be a whole number, 1 or more"),
        (("--steps", "3", "--epochs", "1"), r"give one of the two"),
        (("--warm-up", "-1"), r"warm-up must be a whole number, 0 or more"),
        (("--repeats", "0"), r"repeats must be a whole number, 1 or more"),
        (("--scaling", "sideways"), r"'sideways' is not one of 'strong', 'weak'"),
        (("--data", "airfol"), r"unknown data 'airfol'; did you mean 'airfoil'"),
        (("--model", "linaer"), r"unknown model 'linaer'; did you mean 'linear'"),
        (("--optimizer", "adma"), r"unknown optimizer 'adma'; did you mean 'adam'"),
        (("--backend", "manul"), r"unknown backend 'manul'; did you mean 'manual'"),
        (("--backend", "manual:reduze=ring"), r"no parameter 'reduze'; did you mean 'reduce'"),
        (("--backend", "fixed"), r"backend 'fixed' has no parameter 'devices'"),
        (("--dtype", "float31"), r"dtype must be float32 or float64"),
        (("--lr", "-1"), r"lr must be a positive, finite number"),
        # Refused by the first run, since the data have to be there for that.
        (("--evaluate", "test"), r"no test rows"),
        (("absent.toml",), r"cannot read the experiment file absent\.toml"),
        (("--device", "2"), r"No such option"),
    ],
)
def test_a_wrong_request_ends_with_2_and_one_line_before_anything_is_written(
    call: Callable[..., Any], plugin: Callable[[str], None], tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    plugin(FIXED)
    done = call(*REFUSED, *flags)
    assert (done.code, done.out) == (2, "")
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert re.search(message, line), line
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_place_in_which_no_run_can_be_made_is_refused(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    done = call(*QUICK, "--out", "taken")
    assert (done.code, done.out) == (2, "")
    assert "cannot make a run in 'taken'" in done.err
    assert "--out" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_out_says_where_runs_and_table_are_made(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call(*QUICK, "--devices", "1,2", "--out", "here/and/there")
    assert done.code == 0
    root = tmp_path / "here" / "and" / "there"
    assert len(runs_of(root)) == 2
    assert f"saved in here/and/there/{table_of(root).name}" in done.err
    assert not (tmp_path / "runs").exists()


# FILE


def test_an_option_beats_the_file_and_the_number_of_devices_replaces_the_files(
    call: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "it.toml").write_text(
        """
data = "linear-regression:rows=60"
batch-size = 15
steps = 4
devices = 4

[backend]
name = "manual"
reduce = "ring"

[optimizer]
name = "adam"
lr = 0.25
""",
        encoding="utf-8",
    )
    found = strict(call("scale", "it.toml", "--devices", "1,2", "--lr", 0.5, "--steps", 2, "--json").out)
    assert [(row["devices"], row["batch_size"], row["lr"]) for row in found["rows"]] == [(1, 15, 0.5), (2, 15, 0.5)]
    for row in found["rows"]:
        experiment = read(tmp_path / "runs" / row["runs"][0] / "run.json")["experiment"]
        assert (experiment["steps"], experiment["epochs"]) == (7, None)
        assert (experiment["optimizer"]["name"], experiment["optimizer"]["lr"]) == ("adam", 0.5)
        assert (experiment["backend"]["reduce"], experiment["backend"]["devices"]) == ("ring", row["devices"])
        assert (experiment["data"]["name"], experiment["data"]["rows"]) == ("linear-regression", 60)
    again = strict(call("scale", "it.toml", "--devices", 1, "--batch-size", 20, "--json").out)
    assert [(row["batch_size"], row["lr"]) for row in again["rows"]] == [(20, 0.25)]


# The ends

FAILING = """
import os
import signal

from playground import Model, hookimpl

def fragile(inputs, outputs, interrupt: bool = False):
    from torch import nn

    class Fragile(nn.Linear):
        seen = 0

        def forward(self, rows):
            # Two replicas get six rows each of a batch of twelve, others do not.
            if self.training and rows.shape[0] == 6:
                self.seen += 1
                if self.seen == 4:
                    if not interrupt:
                        raise RuntimeError("no fourth\\nbatch")
                    os.kill(os.getpid(), signal.SIGINT)
            return super().forward(rows)

    return Fragile(inputs[0], outputs)

@hookimpl
def playground_models():
    return [Model("fragile", fragile)]
"""

FRAGILE = ("scale", "-b", "manual", "--batch-size", 12, "--steps", 3, "--devices", "1,2,3", "--model", "fragile")


def test_a_run_that_fails_is_a_row_with_its_error_and_the_others_go_on(
    call: Callable[..., Any], plugin: Callable[[str], None], tmp_path: Path
) -> None:
    plugin(FAILING)
    done = call(*FRAGILE)
    assert done.code == 1
    rows = read(table_of(tmp_path / "runs") / "scale.json")["rows"]
    assert [(row["devices"], row["status"]) for row in rows] == [(1, "done"), (2, "failed"), (3, "done")]
    assert [len(row["errors"]) for row in rows] == [0, 1, 0]
    printed = cells(done.out)
    assert [printed[1][heading] for heading in HEADINGS[3:]] == ["failed", *["-"] * 5, ""]
    assert all(re.fullmatch(r"\d+\.\d\d", row["speed-up"]) for row in (printed[0], printed[2]))
    directory = tmp_path / "runs" / rows[1]["runs"][0]
    assert read(directory / "summary.json")["status"] == "failed"
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: 2 devices, batches of 12: ")
    assert "no fourth batch" in line
    assert line.endswith(f"; see runs/{directory.name}/log.txt")
    assert (directory / "log.txt").exists()
    assert rows[1]["errors"] == [line.removeprefix("error: 2 devices, batches of 12: ")]
    assert "Traceback" not in done.err


def test_debug_shows_the_traceback_of_a_failure(call: Callable[..., Any], plugin: Callable[[str], None]) -> None:
    plugin(FAILING)
    done = call(*FRAGILE, "--debug", "--json")
    assert done.code == 1
    assert "Traceback (most recent call last)" in done.err
    assert "no fourth\nbatch" in done.err
    assert [row["status"] for row in strict(done.out)["rows"]] == ["done", "failed", "done"]


def test_a_run_that_diverges_ends_with_3_and_is_timed(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("scale", "-b", "manual", "--lr", 1e10, "--steps", 20, "--devices", "1,2", "--progress", "none")
    assert done.code == 3
    printed = cells(done.out)
    assert [row["train loss"] for row in printed] == ["diverged", "diverged"]
    assert all(re.fullmatch(r"\d+\.\d\d", row["speed-up"]) for row in printed)
    for row in read(table_of(tmp_path / "runs") / "scale.json")["rows"]:
        assert (row["status"], row["metrics"]) == ("diverged", {"train_loss": None})


WITH_SIGINT = """
import signal
# A process that a shell started in the background ignores SIGINT, and so would this child of it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from playground.cli import main
main()
"""


def test_ctrl_c_during_a_later_run_prints_the_table_so_far_and_ends_with_130(
    install_plugin: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    environment = {**os.environ, **install_plugin("optim-scaled", FAILING)}
    done = subprocess.run(
        [sys.executable, "-c", WITH_SIGINT, *map(str, FRAGILE[:-1]), "fragile:interrupt=true"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    printed = cells(done.stdout)
    assert [row["train loss"] for row in printed[1:]] == ["stopped", "missing"]
    assert re.fullmatch(r"0\.\d{3}", printed[0]["train loss"])
    assert printed[0]["speed-up"] == "1.00"
    kept = read(table_of(tmp_path / "runs") / "scale.json")
    assert kept["stopped"] is True
    assert [row["status"] for row in kept["rows"]] == ["done", "stopped", "missing"]
    ends = [read(tmp_path / "runs" / row["runs"][0] / "summary.json")["status"] for row in kept["rows"][:2]]
    assert ends == ["done", "stopped"]
    assert len(runs_of(tmp_path / "runs")) == 2


def test_ctrl_c_while_a_later_run_is_made_ready_prints_the_table_so_far(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from playground_plugins.data import airfoil

    real, calls = airfoil.load, []

    def load(*arguments: Any, **parameters: Any) -> Any:
        calls.append(parameters)
        # The steps before the first run, that run, and the next.
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **parameters)

    monkeypatch.setattr("playground_plugins.data.airfoil.load", load)
    done = call(*QUICK, "--devices", "1,2")
    assert done.code == 130
    assert [row["train loss"] for row in cells(done.out)][1:] == ["missing"]
    assert len(runs_of(tmp_path / "runs")) == 1


def test_ctrl_c_before_there_is_anything_leaves_nothing(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("playground_plugins.data.airfoil.load", interrupted)
    done = call(*QUICK)
    assert (done.code, done.out) == (130, "")
    assert list(tmp_path.iterdir()) == []


# What cannot be drawn, written or read


def test_a_figure_that_cannot_be_drawn_does_not_cost_the_table(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ValueError("no such font")

    monkeypatch.setattr("playground.figures.scaling", broken)
    done = call(*QUICK, "--devices", "1,2")
    assert done.code == 0
    assert len(cells(done.out)) == 2
    remark = "figure.svg could not be written: ValueError: no such font"
    assert done.out.splitlines().count(remark) == 1
    table = table_of(tmp_path / "runs")
    assert {path.name for path in table.iterdir()} == {"scale.json"}
    assert remark in read(table / "scale.json")["notes"]


def test_a_matplotlib_that_cannot_be_imported_does_not_cost_the_table(cli: Callable[..., Any], tmp_path: Path) -> None:
    done = cli(*QUICK, "--devices", "1,2", env={"MPLBACKEND": "nonsense"})
    assert done.code == 0, done.err
    assert len(cells(done.out)) == 2
    table = table_of(tmp_path / "runs")
    assert len(read(table / "scale.json")["rows"]) == 2
    # matplotlib may have become more forgiving.
    assert (table / "figure.svg").exists() == ("figure.svg could not be written" not in done.out)


def test_a_reader_of_stdout_who_leaves_costs_no_run(tmp_path: Path) -> None:
    words = " ".join(map(str, QUICK))
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m playground {words} --devices 1,2 | head -1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == " ".join(HEADINGS).split()
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert [read(run / "summary.json")["status"] for run in runs_of(tmp_path / "runs")] == ["done", "done"]
    assert len(read(table_of(tmp_path / "runs") / "scale.json")["rows"]) == 2


def test_a_reader_of_stderr_who_leaves_costs_neither_a_run_nor_the_table(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "playground", *map(str, QUICK), "--devices", "1,2"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=writing,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    assert len(cells(done.stdout)) == 2
    assert [read(run / "summary.json")["status"] for run in runs_of(tmp_path / "runs")] == ["done", "done"]


LOADED = """
import sys
from playground.cli import main
try:
    main()
finally:
    print("loaded:", *(name for name in ("matplotlib", "numpy", "torch") if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--help",), 0), (("--optimizer", "nothing"), 2), (("--devices", "many"), 2)],
)
def test_help_and_a_request_that_is_refused_at_sight_need_no_torch(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "scale", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "loaded:"
