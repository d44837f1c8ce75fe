"""`playground run`: the main job as a user sees it, its record, its flags, and the ways in which a run can end."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch

import playground

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")

LEAST = 0.24169
"""Half the mean squared error of least squares on airfoil, the book's way: solved in float64 by itself."""

AT_ZERO = 0.49326
"""The same with all weights zero: half the mean square of the targets that are used."""


def strict(text: str) -> Any:
    """JSON as the standard has it: Python alone reads NaN and Infinity."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def only_run(root: Path) -> Path:
    (found,) = root.iterdir()
    return found


def records_of(directory: Path) -> list[dict[str, Any]]:
    """The records, each of which must be a whole line."""
    text = (directory / "metrics.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [strict(line) for line in text.splitlines()]


def without_seconds(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def summary_of(directory: Path) -> dict[str, Any]:
    return strict((directory / "summary.json").read_text(encoding="utf-8"))


# The main job


@dataclass(frozen=True)
class Job:
    """The main job, done once by the installed command in a process of its own."""

    out: str
    err: str
    commit: str
    cwd: Path

    @property
    def directory(self) -> Path:
        return only_run(self.cwd / "runs")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    cwd = tmp_path_factory.mktemp("job")
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "--quiet"], cwd=cwd, check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "--allow-empty", "-m", "first"], cwd=cwd, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=cwd, capture_output=True, text=True, check=True)
    done = subprocess.run(
        [Path(sys.executable).with_name("playground"), "run", "--backend", "manual", "--optimizer", "adagrad"],
        cwd=cwd,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Job(done.stdout, done.stderr, commit.stdout.strip(), cwd)


def test_the_main_job_prints_its_loss_and_the_known_optimum_beside_it(job: Job) -> None:
    first, second = job.out.splitlines()
    assert re.fullmatch(r"loss: 0\.24[23], \d+\.\d{3} sec/epoch on \[cpu, cpu\]", first)
    assert second == "known optimum: 0.242 (least squares)"
    assert job.out.endswith("\n")


def test_the_main_job_shows_its_progress_and_where_it_saved_the_run_on_stderr(job: Job) -> None:
    lines = job.err.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("epoch ")] == [f"epoch {n}/4" for n in (1, 2, 3, 4)]
    assert lines[-1] == f"saved in runs/{job.directory.name}"


def test_the_main_job_leaves_one_run_directory_with_its_files_and_no_others(job: Job) -> None:
    assert {path.name for path in job.cwd.iterdir()} == {".git", "runs"}
    assert NAME.fullmatch(job.directory.name)
    assert {path.name for path in job.directory.iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "summary.json",
        "figure.svg",
    }


def test_run_json_holds_the_experiment_with_every_parameter(job: Job) -> None:
    experiment = strict((job.directory / "run.json").read_text(encoding="utf-8"))["experiment"]
    adagrad = experiment.pop("optimizer")
    assert experiment == {
        "data": {"name": "airfoil", "rows": None, "holdout": 0.0, "path": None, "seed": 0},
        "model": {"name": "linear", "bias": True},
        "backend": {"name": "manual", "devices": "auto", "reduce": "star", "concurrency": "auto"},
        "epochs": 4,
        "steps": None,
        "batch_size": 10,
        "seed": 0,
        "eval_every": 200,
        "evaluate": None,
        "dtype": "float32",
    }
    torchs = inspect.signature(torch.optim.Adagrad).parameters
    assert adagrad == {
        "name": "adagrad",
        **{name: one.default for name, one in torchs.items() if name != "params"},
        "lr": 0.1,
    }


def test_run_json_says_what_the_run_depended_on(job: Job) -> None:
    facts = strict((job.directory / "run.json").read_text(encoding="utf-8"))
    assert facts["name"] == job.directory.name
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["playground"] == playground.__version__
    assert facts["versions"]["optim-playground"] == playground.__version__
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["components"] == {
        kind: {"name": name, "plugin": plugin, "distribution": "optim-playground", "version": playground.__version__}
        for kind, name, plugin in (
            ("data", "airfoil", "data"),
            ("model", "linear", "models"),
            ("optimizer", "adagrad", "optimizers"),
            ("backend", "manual", "backends"),
        )
    }
    assert facts["git"] == {"commit": job.commit, "changed": False}
    assert facts["host"]["cores"] == os.cpu_count()
    assert facts["host"]["name"]
    assert facts["command"].endswith("playground run --backend manual --optimizer adagrad")
    assert facts["devices"] == ["cpu", "cpu"]
    assert facts["rows"] == 1500
    assert facts["known_optimum"] == pytest.approx(LEAST, abs=1e-5)


def test_the_name_of_a_run_is_the_time_at_which_it_was_made(job: Job) -> None:
    created = strict((job.directory / "run.json").read_text(encoding="utf-8"))["created"]
    assert created.endswith("+00:00")
    # The name is taken first and the file written next, perhaps across the turn of a second or two.
    named = time.strptime(job.directory.name.split("-")[0], "%Y%m%dT%H%M%SZ")
    written = time.strptime(created.removesuffix("+00:00"), "%Y-%m-%dT%H:%M:%S")
    assert 0 <= time.mktime(written) - time.mktime(named) <= 5


def test_the_main_job_records_31_points_from_zero_weights_to_the_optimum(job: Job) -> None:
    records = records_of(job.directory)
    assert [record["step"] for record in records] == list(range(0, 601, 20))
    assert [record["samples"] for record in records] == list(range(0, 6001, 200))
    assert [record["epoch"] for record in records] == [samples / 1500 for samples in range(0, 6001, 200)]
    assert {record["lr"] for record in records} == {0.1}
    assert records[0]["train_loss"] == pytest.approx(AT_ZERO, abs=0.01)
    assert records[0]["seconds"] == 0
    assert records[0]["step_loss"] is None
    assert LEAST < records[-1]["train_loss"] < 0.2435
    seconds = [record["seconds"] for record in records]
    assert seconds == sorted(seconds)


def test_the_summary_of_the_main_job_is_that_of_its_last_record(job: Job) -> None:
    summary, last = summary_of(job.directory), records_of(job.directory)[-1]
    assert summary["status"] == "done"
    assert summary["error"] is None
    assert summary["metrics"] == {"train_loss": last["train_loss"]}
    assert (summary["steps"], summary["samples"], summary["devices"]) == (600, 6000, ["cpu", "cpu"])
    assert summary["known_optimum"] == pytest.approx(LEAST, abs=1e-5)
    assert summary["sec_per_epoch"] > 0
    assert summary["samples_per_sec"] == pytest.approx(1500 / summary["sec_per_epoch"])
    # A linear model of five inputs has six numbers of four bytes; the star moves them to the first replica and back.
    assert summary["bytes_per_step"] == 2 * 6 * 4


def test_the_best_record_is_the_one_with_the_lowest_loss(job: Job) -> None:
    best = min(records_of(job.directory), key=lambda record: record["train_loss"])
    assert summary_of(job.directory)["best"] == {"train_loss": best["train_loss"], "step": best["step"]}


def test_the_figure_is_valid_svg_with_the_curve_and_the_optimum_in_it(job: Job) -> None:
    text = (job.directory / "figure.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    svg = "{http://www.w3.org/2000/svg}"
    (line,) = root.iterfind(f".//{svg}g[@id='train_loss']/{svg}path")
    # From the first of the 31 points to the last.
    assert re.findall("[A-Z]", line.attrib["d"]) == ["M"] + ["L"] * 30
    assert root.find(f".//{svg}g[@id='known_optimum']/{svg}path") is not None
    assert "known optimum 0.2417" in text


def test_a_second_run_of_the_main_job_records_the_same_lines_but_for_the_seconds(
    job: Job, call: Callable[..., Any], tmp_path: Path
) -> None:
    assert call("run", "--backend", "manual:devices=[cpu, cpu]", "--optimizer", "adagrad").code == 0
    again = records_of(only_run(tmp_path / "runs"))
    assert without_seconds(again) == without_seconds(records_of(job.directory))


# --json


def test_json_prints_one_object_and_nothing_else_on_stdout(cli: Callable[..., Any], tmp_path: Path) -> None:
    done = cli("run", "--data", "airfoil:holdout=0.2", "--backend", "manual", "--devices", "cpu,cpu", "--json")
    assert done.code == 0, done.err
    found = strict(done.out)
    assert found.keys() >= {
        "status",
        "run_dir",
        "experiment",
        "metrics",
        "sec_per_epoch",
        "samples_per_sec",
        "devices",
        "steps",
    }
    directory = tmp_path / found["run_dir"]
    assert directory == only_run(tmp_path / "runs")
    assert found["status"] == "done"
    assert found["experiment"] == strict((directory / "run.json").read_text(encoding="utf-8"))["experiment"]
    assert found["metrics"].keys() == {"train_loss", "test_loss"}
    last = records_of(directory)[-1]
    assert found["metrics"] == {name: last[name] for name in ("train_loss", "test_loss")}
    # 300 of the 1500 rows are held out, and 4 epochs of 1200 rows are 480 steps of 10.
    assert (found["steps"], found["samples"], found["devices"]) == (480, 4800, ["cpu", "cpu"])
    assert found["sec_per_epoch"] > 0
    assert found["samples_per_sec"] > 0
    assert "held out" in " ".join(found["notes"])


def test_json_says_600_steps_by_default_and_names_no_test_metric_without_a_test_split(call: Callable[..., Any]) -> None:
    found = strict(call("run", "--json").out)
    assert found["steps"] == 600
    assert found["metrics"].keys() == {"train_loss"}
    assert [found["experiment"][kind]["name"] for kind in ("data", "model", "optimizer", "backend")] == [
        "airfoil",
        "linear",
        "sgd",
        "single",
    ]


def test_json_of_a_diverged_run_is_json(call: Callable[..., Any]) -> None:
    done = call("run", "--lr", "1e10", "--json")
    assert done.code == 3
    found = strict(done.out)
    assert found["status"] == "diverged"
    assert found["metrics"] == {"train_loss": None}


def test_json_of_a_failed_run_says_what_failed(
    call: Callable[..., Any], failing: Callable[[], None], tmp_path: Path
) -> None:
    failing()
    done = call("run", "--optimizer", "fails", "--json")
    assert done.code == 1
    found = strict(done.out)
    assert found["status"] == "failed"
    assert found["error"] == "RuntimeError: no fifth step"
    assert tmp_path / found["run_dir"] == only_run(tmp_path / "runs")


# Flags and the experiment file

EXPERIMENT = """
data = "linear-regression:rows=60"
optimizer = {name = "momentum", momentum = 0.5}
lr = 0.02
epochs = 2
batch-size = 7
seed = 3
eval-every = 30
dtype = "float64"

[model]
name = "mlp"
hidden = [4, 3]
activation = "tanh"

[backend]
name = "manual"
reduce = "ring"
devices = ["cpu", "cpu"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


def test_an_experiment_file_says_all_that_flags_can_say(call: Callable[..., Any], file: Path) -> None:
    by_file = strict(call("run", file, "--json").out)
    by_flags = strict(
        call(
            *("run", "--json", "--data", "linear-regression:rows=60", "--model", "mlp:hidden=[4,3],activation=tanh"),
            *("--optimizer", "momentum:momentum=0.5", "--lr", 0.02, "--backend", "manual:reduce=ring"),
            *("--devices", "cpu,cpu", "--epochs", 2, "--batch-size", 7, "--seed", 3, "--eval-every", 30),
            *("--dtype", "float64"),
        ).out
    )
    assert by_file["metrics"] == by_flags["metrics"]
    assert by_file["devices"] == by_flags["devices"] == ["cpu", "cpu"]
    # 60 rows are nine batches, the last of them of four rows; two epochs.
    assert by_file["steps"] == by_flags["steps"] == 18
    for found in (by_file, by_flags):
        devices = found["experiment"]["backend"].pop("devices")
        assert devices in ("cpu,cpu", ["cpu", "cpu"])
    assert by_file["experiment"] == by_flags["experiment"]
    assert by_file["experiment"]["optimizer"]["lr"] == 0.02
    assert by_file["experiment"]["optimizer"]["momentum"] == 0.5


def test_a_flag_beats_the_file_and_leaves_the_rest_of_it(call: Callable[..., Any], file: Path) -> None:
    found = strict(call("run", file, "--epochs", 1, "--lr", 0.03, "--model", "linear", "--json").out)["experiment"]
    assert found["epochs"] == 1
    assert found["optimizer"]["lr"] == 0.03
    assert found["optimizer"]["momentum"] == 0.5
    assert found["model"] == {"name": "linear", "bias": True}
    assert found["seed"] == 3
    assert found["backend"]["reduce"] == "ring"


@pytest.mark.parametrize(("optimizer", "lr"), [("adagrad", 0.1), ("adam", 0.01), ("adam:lr=0.5", 0.5)])
def test_an_optimizer_that_a_flag_names_brings_its_own_learning_rate(
    call: Callable[..., Any], file: Path, optimizer: str, lr: float
) -> None:
    found = strict(call("run", file, "--optimizer", optimizer, "--json").out)
    assert found["experiment"]["optimizer"]["lr"] == lr
    assert "momentum" not in found["experiment"]["optimizer"]


def test_the_learning_rate_that_was_asked_for_is_the_one_in_the_records(
    call: Callable[..., Any], tmp_path: Path
) -> None:
    call("run", "--data", "linear-regression:rows=20", "--optimizer", "adam:lr=0.125")
    assert {record["lr"] for record in records_of(only_run(tmp_path / "runs"))} == {0.125}


@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu", "cpu,cpu,cpu"])
def test_batch_size_is_global_and_the_learning_rate_is_never_scaled_by_the_number_of_devices(
    call: Callable[..., Any], tmp_path: Path, devices: str
) -> None:
    done = call(
        *("run", "--json", "--backend", "manual", "--devices", devices, "--batch-size", 32, "--lr", 0.05),
        *("--epochs", 1, "--dtype", "float64", "--eval-every", 500),
    )
    found, records = strict(done.out), records_of(only_run(tmp_path / "runs"))
    assert found["devices"] == devices.split(",")
    # 1500 rows are 46 batches of 32 and one of 28.
    assert found["steps"] == 47
    assert [record["samples"] for record in records] == [0, 512, 1024, 1500]
    assert {record["lr"] for record in records} == {0.05}
    alone = playground.run(devices="cpu", batch_size=32, lr=0.05, epochs=1, dtype="float64", out=None)
    assert found["metrics"]["train_loss"] == pytest.approx(alone.metrics["train_loss"], rel=1e-12)


def test_the_data_that_was_chosen_brings_its_settings(call: Callable[..., Any]) -> None:
    found = strict(call("run", "--data", "linear-regression", "--json").out)
    assert found["steps"] == 80
    assert found["experiment"]["data"] == {
        "name": "linear-regression",
        "rows": 200,
        "weights": [5.2, 9.6],
        "bias": 3.4,
        "noise": 0.0,
        "seed": 0,
    }
    # Targets without noise are a linear function of the inputs.
    assert found["known_optimum"] == pytest.approx(0, abs=1e-12)


def test_out_says_where_runs_are_made_and_makes_folders_on_the_way(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("run", "--data", "linear-regression:rows=20", "--out", "here/and/there")
    directory = only_run(tmp_path / "here" / "and" / "there")
    assert done.code == 0
    assert f"saved in here/and/there/{directory.name}" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_component_can_be_named_with_its_distribution(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "linear-regression:rows=20", "--optimizer", "optim-playground/adam", "--json")
    assert strict(done.out)["experiment"]["optimizer"]["name"] == "adam"


# How long it trains, and on what it is measured


def test_a_run_of_so_many_steps_ends_after_them(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("run", "--data", "linear-regression:rows=60", "--steps", 13, "--eval-every", 60, "--json")
    found = strict(done.out)
    assert (done.code, found["steps"], found["samples"]) == (0, 13, 130)
    assert (found["experiment"]["epochs"], found["experiment"]["steps"]) == (None, 13)
    records = records_of(only_run(tmp_path / "runs"))
    assert [record["step"] for record in records] == [0, 6, 12, 13]
    assert records[-1]["epoch"] == 130 / 60


def test_steps_and_epochs_of_flags_take_the_place_of_the_files(call: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text('data = "linear-regression:rows=20"\nsteps = 3\n', encoding="utf-8")
    assert strict(call("run", file, "--json").out)["steps"] == 3
    assert strict(call("run", file, "--epochs", 2, "--json").out)["steps"] == 4
    file.write_text('data = "linear-regression:rows=20"\nepochs = 2\n', encoding="utf-8")
    assert strict(call("run", file, "--steps", 3, "--json").out)["steps"] == 3


def test_only_the_rows_that_are_to_be_evaluated_are(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("run", "--data", "airfoil:holdout=0.2", "--evaluate", "test", "--epochs", 1, "--eval-every", 400)
    first, second = done.out.splitlines()
    # What the run is known by, and it alone.
    assert re.fullmatch(r"test_loss: 0\.\d{3}, \d+\.\d{3} sec/epoch on \[cpu\]", first)
    assert second.startswith("known optimum: ")
    directory = only_run(tmp_path / "runs")
    records = records_of(directory)
    assert [record.keys() for record in records] == [
        {"step", "samples", "epoch", "seconds", "lr", "step_loss", "test_loss"}
    ] * 4
    summary = summary_of(directory)
    best = min(records, key=lambda record: record["test_loss"])
    assert summary["best"] == {"test_loss": best["test_loss"], "step": best["step"]}
    assert summary["metrics"] == {"test_loss": records[-1]["test_loss"]}
    svg = "{http://www.w3.org/2000/svg}"
    drawn = {group.get("id") for group in ET.parse(directory / "figure.svg").iter(f"{svg}g")}
    assert {"step_loss", "test_loss"} <= drawn
    assert "train_loss" not in drawn
    (line,) = [line for line in done.err.splitlines() if line.startswith("epoch 1/1: ")]
    assert re.fullmatch(r"epoch 1/1: test_loss 0\.\d+", line)


# What goes through the replicas, and what comes out

BOOK_ON_TWO = (
    *("run", "--data", "linear-regression", "--optimizer", "adam:lr=0.5", "--epochs", 200, "--batch-size", 200),
    *("--backend", "data-parallel", "--devices", "cpu,cpu", "--trace-shapes", "--show-parameters"),
)


def test_shapes_and_parameters_are_printed_around_the_result(cli: Callable[..., Any]) -> None:
    done = cli(*BOOK_ON_TWO, "--progress", "none")
    assert done.code == 0, done.err
    *shapes, loss, optimum, weight, bias = done.out.splitlines()
    assert shapes == [
        "step 1, a batch of 200:",
        "  replica 0 on cpu: input [100, 2] → output [100, 1]",
        "  replica 1 on cpu: input [100, 2] → output [100, 1]",
        "  outside: input [200, 2] → output [200, 1]",
    ]
    assert re.fullmatch(r"loss: 0\.000, \d+\.\d{3} sec/epoch on \[cpu, cpu\]", loss)
    assert optimum == "known optimum: 0.000 (least squares)"
    name, numbers = weight.split(": ")
    assert name == "weight [1, 2]"
    # The numbers that the data was made from.
    assert [float(number) for number in numbers.split(" ")] == pytest.approx([5.2, 9.6], abs=1e-2)
    name, number = bias.split(": ")
    assert (name, float(number)) == ("bias [1]", pytest.approx(3.4, abs=1e-2))


def test_json_holds_shapes_and_parameters_and_the_summary_the_shapes(call: Callable[..., Any], tmp_path: Path) -> None:
    found = strict(call(*BOOK_ON_TWO, "--json").out)
    passages = [{"replica": replica, "device": "cpu", "input": [100, 2], "output": [100, 1]} for replica in range(2)]
    assert found["shapes"] == [{"step": 1, "passages": passages, "idle": [], "input": [200, 2], "output": [200, 1]}]
    assert found["parameters"].keys() == {"weight", "bias"}
    assert found["parameters"]["weight"]["shape"] == [1, 2]
    assert found["parameters"]["weight"]["values"] == [pytest.approx([5.2, 9.6], abs=1e-2)]
    assert found["parameters"]["bias"] == {"shape": [1], "values": pytest.approx([3.4], abs=1e-2)}
    summary = summary_of(only_run(tmp_path / "runs"))
    assert summary["shapes"] == found["shapes"]
    assert "parameters" not in summary


def test_shapes_and_parameters_that_nobody_asked_for_are_not_shown(call: Callable[..., Any], tmp_path: Path) -> None:
    done = call("run", "--data", "linear-regression:rows=20")
    assert "→" not in done.out
    assert "weight" not in done.out
    assert summary_of(only_run(tmp_path / "runs"))["shapes"] == []
    found = strict(call("run", "--data", "linear-regression:rows=20", "--json").out)
    assert found["shapes"] == []
    assert "parameters" not in found


def test_of_many_parameters_their_statistics_are_printed(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "linear-regression:rows=20", "--model", "mlp:hidden=[30]", "--show-parameters")
    number = r"-?\d[\d.e+-]*"
    lines = done.out.splitlines()[-4:]
    for line, name in zip(
        lines, ["linear1.weight [30, 2]", "linear1.bias [30]", "output.weight [1, 30]"], strict=False
    ):
        assert re.fullmatch(rf"{re.escape(name)}: mean {number}  std {number}  min {number}  max {number}", line), line
    assert re.fullmatch(rf"output\.bias \[1\]: {number}", lines[-1])


def test_parameters_that_are_no_numbers_any_more_are_shown_so_and_are_null_in_json(call: Callable[..., Any]) -> None:
    words = ("run", "--data", "linear-regression:rows=20", "--lr", "1e30", "--show-parameters")
    done = call(*words)
    assert done.code == 3
    assert re.fullmatch(r"diverged: .*\nweight \[1, 2\]: nan nan\nbias \[1\]: nan\n", done.out)
    assert strict(call(*words, "--json").out)["parameters"]["bias"] == {"shape": [1], "values": [None]}


def test_where_the_time_of_a_step_went_is_in_the_summary(job: Job) -> None:
    summary = summary_of(job.directory)
    time = summary["ms_per_step"]
    assert list(time) == ["feed", "compute", "communicate", "update", "other"]
    assert all(value > 0 for value in time.values())
    # 150 steps an epoch.
    assert sum(time.values()) == pytest.approx(1e3 * summary["sec_per_epoch"] / 150, rel=1e-6)
    assert summary["shapes"] == []


# What is printed beside the loss


def test_a_holdout_is_noted_and_its_loss_printed(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "airfoil:holdout=0.2", "--epochs", 1)
    first, second, third = done.out.splitlines()
    assert first.startswith("loss: ")
    assert re.fullmatch(r"test_loss: 0\.\d{3}", second)
    assert third.startswith("known optimum: ")
    assert "note: columns standardised over the 1200 training rows alone; 300 of the first 1500 rows held out" in (
        done.err.splitlines()
    )


def test_the_books_standardisation_over_all_rows_is_noted(call: Callable[..., Any]) -> None:
    assert "note: columns standardised over all 1503 rows of the file" in call("run", "--epochs", 1).err


def test_no_optimum_is_printed_where_none_is_known(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "linear-regression:rows=20", "--model", "mlp:hidden=[2]")
    assert re.fullmatch(r"loss: \d+\.\d{3}, \d+\.\d{3} sec/epoch on \[.*\]\n", done.out)


def test_no_optimum_is_printed_for_a_linear_model_that_cannot_reach_it(call: Callable[..., Any]) -> None:
    found = strict(call("run", "--data", "linear-regression:rows=20", "--model", "linear:bias=false", "--json").out)
    assert found["known_optimum"] is None


def test_a_batch_of_more_rows_than_there_are_is_noted(call: Callable[..., Any]) -> None:
    done = call("run", "--data", "linear-regression:rows=20", "--batch-size", 64, "--epochs", 3, "--json")
    assert strict(done.out)["steps"] == 3
    assert any("64" in text and "20" in text for text in strict(done.out)["notes"])


def test_what_a_model_prints_does_not_end_up_in_the_result(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[dict[str, str]], None],
) -> None:
    in_process_plugins(install_plugin("optim-chatty", CHATTY))
    done = call("run", "--data", "linear-regression:rows=20", "--model", "chatty", "--json")
    assert strict(done.out)["status"] == "done"
    assert "I am a model" in done.err
    assert "a run starts" in done.err


CHATTY = """
from playground import Model, hookimpl

def chatty(inputs, outputs):
    from torch import nn
    print("I am a model")
    return nn.Linear(inputs[0], outputs)

@hookimpl
def playground_models():
    return [Model("chatty", chatty)]

@hookimpl
def playground_run_start(run):
    print("a run starts")
"""


# The ends

FAILING = """
from playground import Optimizer, hookimpl

def fails(params, lr: float = 0.01):
    from torch.optim import SGD

    class Fails(SGD):
        taken = 0

        def step(self, closure=None):
            self.taken += 1
            if self.taken == 5:
                raise RuntimeError("no fifth\\nstep")
            return super().step(closure)

    return Fails(params, lr=lr)

def leaves(params, lr: float = 0.01):
    from torch.optim import SGD

    class Leaves(SGD):
        def step(self, closure=None):
            raise SystemExit(0)

    return Leaves(params, lr=lr)

@hookimpl
def playground_optimizers():
    return [Optimizer("fails", fails), Optimizer("leaves", leaves)]
"""


@pytest.fixture
def failing(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> Callable[[], None]:
    """Installs the optimizer `fails`, which raises in its fifth step, and `leaves`, which exits in its first."""
    return lambda: in_process_plugins(install_plugin("optim-failing", FAILING))


def test_a_run_that_fails_ends_with_1_and_one_line_and_keeps_its_records(
    call: Callable[..., Any], failing: Callable[[], None], tmp_path: Path
) -> None:
    failing()
    done = call("run", "--optimizer", "fails", "--eval-every", 20, "--progress", "none")
    directory = only_run(tmp_path / "runs")
    assert done.code == 1
    assert done.out == ""
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "RuntimeError: no fifth step" in line
    assert f"{directory.relative_to(tmp_path)}/log.txt" in line
    assert "Traceback" not in done.err
    summary = summary_of(directory)
    assert summary["status"] == "failed"
    assert summary["error"] == "RuntimeError: no fifth step"
    assert summary["steps"] == 4
    assert [record["step"] for record in records_of(directory)] == [0, 2, 4]
    facts = strict((directory / "run.json").read_text(encoding="utf-8"))
    assert facts["versions"]["optim-failing"] == "1.2.3"
    assert facts["components"]["optimizer"]["distribution"] == "optim-failing"
    log = (directory / "log.txt").read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" in log
    assert "no fifth\nstep" in log


def test_a_failure_is_said_to_be_in_the_step_that_failed(call: Callable[..., Any], failing: Callable[[], None]) -> None:
    failing()
    err = call("run", "--optimizer", "fails").err
    assert re.search(r"(in|at) step 5\b|after step 4\b", err)


@pytest.mark.parametrize("backend", ["single", "manual", "data-parallel"])
def test_a_single_row_under_batch_normalisation_fails_with_what_to_do(
    call: Callable[..., Any], tmp_path: Path, backend: str
) -> None:
    done = call(
        *("run", "--data", "airfoil:rows=21", "--model", "mlp:batch_norm=true", "--batch-size", 10),
        *("--backend", backend, "--devices", "cpu" if backend == "single" else 2, "--trace-shapes"),
    )
    directory = only_run(tmp_path / "runs")
    assert done.code == 1
    # The first batch went through; of the one with the single row nothing came out.
    assert done.out.splitlines()[-2:] == ["step 3, a batch of 1:", "  outside: input [1, 5] → output ?"]
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert line.startswith(
        "error: the run failed after step 2: replica 0 on cpu failed on its shard of 1 row: ValueError: "
    )
    assert "choose --batch-size and --devices so that every shard" in line
    assert line.endswith(f"two rows or more; see {directory.relative_to(tmp_path)}/log.txt")
    summary = summary_of(directory)
    assert (summary["status"], summary["steps"]) == ("failed", 2)
    assert summary["error"].startswith("replica 0 on cpu failed on its shard of 1 row: ")
    assert [batch["step"] for batch in summary["shapes"]] == [1, 3]
    assert len(records_of(directory)) == 1
    assert "Expected more than 1 value per channel" in (directory / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [("run", "--debug"), ("--debug", "run")])
def test_debug_shows_the_traceback_of_a_failure_and_does_not_call_it_a_fault_of_playground(
    call: Callable[..., Any], failing: Callable[[], None], arguments: tuple[str, ...]
) -> None:
    failing()
    done = call(*arguments, "--optimizer", "fails")
    assert done.code == 1
    assert "Traceback (most recent call last)" in done.err
    assert "no fifth" in done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "fault of playground" not in line


@pytest.mark.parametrize("flags", [(), ("--debug",)])
def test_an_optimizer_that_exits_the_interpreter_makes_the_run_fail(
    call: Callable[..., Any], failing: Callable[[], None], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    failing()
    done = call("run", "--optimizer", "leaves", *flags)
    assert done.code == 1
    assert summary_of(only_run(tmp_path / "runs"))["status"] == "failed"


@pytest.mark.parametrize(
    "flags",
    [
        ("--optimizer", "sgd", "--lr", "1e10"),
        ("--optimizer", "adam:lr=1e30"),
        ("--optimizer", "momentum", "--lr", "1e20", "--backend", "manual", "--devices", "cpu,cpu"),
    ],
)
def test_a_run_that_diverges_ends_with_3_keeps_its_record_and_is_never_the_best(
    call: Callable[..., Any], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    done = call("run", *flags)
    directory = only_run(tmp_path / "runs")
    assert done.code == 3
    assert done.out.startswith("diverged: the loss is not finite after step 20")
    assert len(done.out.splitlines()) == 1
    records = records_of(directory)
    assert [record["step"] for record in records] == [0, 20]
    assert records[0]["train_loss"] == pytest.approx(AT_ZERO, abs=0.01)
    assert records[-1]["train_loss"] is None
    summary = summary_of(directory)
    assert summary["status"] == "diverged"
    assert summary["metrics"] == {"train_loss": None}
    assert summary["best"] == {"train_loss": records[0]["train_loss"], "step": 0}
    ET.parse(directory / "figure.svg")


LONG = ("--epochs", "1000000", "--eval-every", "50", "--progress", "none")

WITH_SIGINT = """
import signal
# A process that a shell started in the background ignores SIGINT, and so would this child of it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from playground.cli import main
main()
"""


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], Path]]]:
    """Starts a run that would take hours; gives its process, and its directory once it has three records."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", WITH_SIGINT, "run", *LONG],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            for metrics in tmp_path.glob("runs/*/metrics.jsonl"):
                if metrics.read_bytes().count(b"\n") >= 3:
                    return process, metrics.parent
            time.sleep(0.02)
        raise AssertionError(f"no three records: {process.communicate(timeout=10) if process.poll() else 'too slow'}")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_ctrl_c_stops_a_run_with_130_and_keeps_its_records_whole(
    long_run: Callable[[], tuple[subprocess.Popen[str], Path]],
) -> None:
    process, directory = long_run()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(r"stopped after step \d+\n", out)
    assert "Traceback" not in err
    assert "saved in runs/" in err
    records, summary = records_of(directory), summary_of(directory)
    assert [record["step"] for record in records] == list(range(0, 5 * len(records), 5))
    assert summary["status"] == "stopped"
    assert summary["steps"] >= records[-1]["step"]
    assert summary["metrics"] == {"train_loss": records[-1]["train_loss"]}
    assert {path.name for path in directory.iterdir()} >= {"run.json", "metrics.jsonl", "summary.json", "figure.svg"}


def test_a_run_that_is_killed_leaves_whole_lines_and_no_summary(
    long_run: Callable[[], tuple[subprocess.Popen[str], Path]],
) -> None:
    process, directory = long_run()
    process.kill()
    process.communicate(timeout=60)
    records = records_of(directory)
    assert len(records) >= 3
    assert all(record.keys() == records[0].keys() for record in records)
    assert strict((directory / "run.json").read_text(encoding="utf-8"))["name"] == directory.name
    assert not (directory / "summary.json").exists()


def test_ctrl_c_before_the_first_record_leaves_nothing(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("playground_plugins.data.airfoil.load", interrupted)
    done = call("run")
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1].startswith("error: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_the_figure_is_drawn_still_leaves_a_summary(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("playground.figures.curve", interrupted)
    done = call("run", "--data", "linear-regression:rows=20")
    directory = only_run(tmp_path / "runs")
    assert "before anything was written" not in done.err
    assert summary_of(directory)["status"] in ("done", "stopped")
    assert not [path for path in directory.iterdir() if path.name.startswith(".")]


# No display

WITH_A_LOOK_AT_PYPLOT = """
import sys
from playground.cli import main
try:
    main()
finally:
    print("pyplot was imported" if "matplotlib.pyplot" in sys.modules else "no pyplot", file=sys.stderr)
"""


@pytest.mark.parametrize("backend", ["TkAgg", "nonsense"])
def test_a_run_needs_no_display_and_never_imports_pyplot(tmp_path: Path, backend: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_LOOK_AT_PYPLOT, "run", "--data", "linear-regression:rows=20"],
        cwd=tmp_path,
        env={**environment, "MPLBACKEND": backend},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loss: ")
    assert done.stderr.splitlines()[-1] == "no pyplot"
    directory = only_run(tmp_path / "runs")
    assert summary_of(directory)["status"] == "done"
    drawn = (directory / "figure.svg").exists()
    assert drawn or "note: figure.svg of " in done.stderr
    assert drawn or backend == "nonsense"
