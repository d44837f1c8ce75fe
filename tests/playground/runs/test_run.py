"""Run: what it says of itself, in words, in JSON and in a notebook."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

from playground import Experiment, PlaygroundError, Registry
from playground.engine.ledger import Ledger
from playground.engine.shapes import BatchShapes, Passage
from playground.runs.run import Run

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.of(Registry(), {"optimizer": "adam:lr=0.5", "backend": "manual"})


def record(step: int, **losses: float | None) -> dict[str, float | None]:
    return {
        "step": step,
        "samples": step * 10,
        "epoch": step / 150,
        "seconds": step / 1000,
        "lr": 0.5,
        "step_loss": None,
        **losses,
    }


@pytest.fixture
def run(experiment: Experiment) -> Run:
    return Run(
        experiment,
        name="20260304T050607Z-aaaaaa",
        directory=Path("runs/20260304T050607Z-aaaaaa"),
        status="done",
        history=[record(0, train_loss=0.5, test_loss=0.6), record(300, train_loss=0.2426, test_loss=0.3)],
        devices=["cpu", "cpu"],
        steps=300,
        samples=3000,
        seconds=0.05,
        epochs_done=2.0,
        timed=Ledger(300, 3000, 14400, 0.05, {"feed": 0.0078125, "compute": 0.03125}),
        known_optimum=0.2417,
        notes=["a note"],
    )


def test_a_run_is_one_line_with_its_loss_its_speed_and_its_devices(run: Run) -> None:
    assert str(run) == "loss: 0.243, 0.025 sec/epoch on [cpu, cpu]"
    assert repr(run) == "<Run 20260304T050607Z-aaaaaa done: loss: 0.243, 0.025 sec/epoch on [cpu, cpu]>"


def test_metrics_are_those_of_the_last_record(run: Run) -> None:
    assert run.metrics == {"train_loss": 0.2426, "test_loss": 0.3}


@pytest.mark.parametrize(
    ("metrics", "headline", "line"),
    [
        ({"train_loss": 0.25}, "train_loss", "loss: 0.250"),
        ({"train_loss": 0.25, "test_loss": 0.5}, "train_loss", "loss: 0.250"),
        ({"test_loss": 0.5}, "test_loss", "test_loss: 0.500"),
        (
            {"train_loss": 0.25, "train_accuracy": 0.75, "test_loss": 0.5, "test_accuracy": 0.625},
            "test_accuracy",
            "test_accuracy: 0.625",
        ),
        ({"test_loss": 0.5, "test_accuracy": 0.625}, "test_accuracy", "test_accuracy: 0.625"),
        ({"train_loss": 0.25, "train_accuracy": 0.75}, "train_loss", "loss: 0.250"),
    ],
    ids=str,
)
def test_a_run_is_known_by_its_test_accuracy_else_its_train_loss_else_its_test_loss(
    run: Run, metrics: dict[str, float], headline: str, line: str
) -> None:
    run.history = [record(300, **metrics)]
    assert run.headline == headline
    assert str(run) == f"{line}, 0.025 sec/epoch on [cpu, cpu]"


def test_a_headline_that_is_no_number_is_left_out_of_the_line(run: Run) -> None:
    run.history = [record(300, train_loss=None)]
    assert (run.headline, str(run)) == ("train_loss", "done on [cpu, cpu]")


def test_speeds_leave_nothing_out_and_count_rows(run: Run) -> None:
    assert run.sec_per_epoch == pytest.approx(0.025)
    assert run.samples_per_sec == pytest.approx(60_000)


def test_speeds_are_those_of_the_steps_that_were_timed(run: Run) -> None:
    # An epoch has 1500 rows; the last 500 of the run's 3000 were timed, and took a quarter of a second.
    run.timed = Ledger(steps=50, samples=500, moved=100, seconds=0.25)
    assert run.samples_per_sec == 2000
    assert run.sec_per_epoch == 0.75
    assert (run.summary()["bytes_per_step"], run.summary()["ms_per_step"]["other"]) == (2, 5)
    assert (run.summary()["steps"], run.summary()["samples"]) == (300, 3000)


def test_without_a_step_that_was_timed_there_is_no_speed(run: Run) -> None:
    run.timed = Ledger()
    summary = run.summary()
    assert (summary["sec_per_epoch"], summary["samples_per_sec"], summary["bytes_per_step"]) == (None, None, None)
    assert summary["ms_per_step"] == {}
    assert str(run) == "done on [cpu, cpu]"


def test_the_json_object_of_a_run_has_what_its_summary_has_and_the_experiment(run: Run) -> None:
    found = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert found == {
        "status": "done",
        "run_dir": "runs/20260304T050607Z-aaaaaa",
        "experiment": json.loads(json.dumps(run.experiment.to_dict())),
        "metrics": {"train_loss": 0.2426, "test_loss": 0.3},
        "best": {"train_loss": 0.2426, "step": 300},
        "known_optimum": 0.2417,
        "sec_per_epoch": 0.025,
        "samples_per_sec": 60_000,
        "devices": ["cpu", "cpu"],
        "steps": 300,
        "samples": 3000,
        "timed_steps": 300,
        "bytes_per_step": 48.0,
        "ms_per_step": {
            "feed": pytest.approx(0.0078125 / 0.3),
            "compute": pytest.approx(0.03125 / 0.3),
            # What the two leave of 50 ms.
            "other": pytest.approx(0.0109375 / 0.3),
        },
        "shapes": [],
        "notes": ["a note"],
        "error": None,
    }


@pytest.mark.parametrize("last", [NAN, INF, -INF])
def test_a_loss_that_is_not_finite_is_never_the_best(run: Run, last: float) -> None:
    run.history = [record(0, train_loss=0.5), record(1, train_loss=0.4), record(2, train_loss=last)]
    assert run.summary()["best"] == {"train_loss": 0.4, "step": 1}


def test_the_earlier_of_two_equal_losses_is_the_best(run: Run) -> None:
    run.history = [record(0, train_loss=0.5), record(1, train_loss=0.4), record(2, train_loss=0.4)]
    assert run.summary()["best"] == {"train_loss": 0.4, "step": 1}


def test_the_best_is_by_the_test_loss_where_the_training_rows_are_not_evaluated(run: Run) -> None:
    run.history = [record(0, test_loss=0.5), record(1, test_loss=0.25), record(2, test_loss=0.375)]
    assert run.summary()["best"] == {"test_loss": 0.25, "step": 1}


def test_the_best_is_by_the_train_loss_where_both_are_evaluated(run: Run) -> None:
    run.history = [record(0, train_loss=0.5, test_loss=0.25), record(1, train_loss=0.25, test_loss=0.5)]
    assert run.summary()["best"] == {"train_loss": 0.25, "step": 1}


@pytest.mark.parametrize("losses", [(), (NAN,), (INF, NAN)])
def test_a_run_without_a_finite_loss_has_no_best(run: Run, losses: tuple[float, ...]) -> None:
    run.history = [record(step, train_loss=loss) for step, loss in enumerate(losses)]
    assert run.summary()["best"] is None


def test_what_made_a_run_fail_is_said_in_one_line(run: Run) -> None:
    run.status, run.error = "failed", ValueError("too much\nof everything")
    assert run.summary()["error"] == "ValueError: too much of everything"


def test_an_error_of_the_project_s_own_is_said_without_its_type(run: Run) -> None:
    run.status, run.error = "failed", PlaygroundError("replica 1 has\ndrifted")
    assert run.summary()["error"] == "replica 1 has drifted"
    run.error = PlaygroundError()
    assert run.summary()["error"] == "PlaygroundError"


def test_the_shapes_of_a_run_are_in_its_summary(run: Run) -> None:
    run.shapes = [BatchShapes(4, (Passage(0, "cpu", (1, 5), (1, 2)),), (1,), (1, 5), (1, 2))]
    assert json.loads(json.dumps(run.summary()["shapes"])) == [
        {
            "step": 4,
            "passages": [{"replica": 0, "device": "cpu", "input": [1, 5], "output": [1, 2]}],
            "idle": [1],
            "input": [1, 5],
            "output": [1, 2],
        }
    ]


def test_parameters_are_in_the_json_object_and_not_in_the_summary_where_they_were_kept(run: Run) -> None:
    assert "parameters" not in run.to_dict()
    run.parameters = {"bias": torch.tensor([1.5, -2.0])}
    assert run.to_dict()["parameters"] == {"bias": {"shape": [2], "values": [1.5, -2.0]}}
    assert "parameters" not in run.summary()


@pytest.mark.parametrize("status", ["running", "failed", "stopped"])
def test_a_run_that_has_hardly_begun_can_be_shown(experiment: Experiment, status: Any) -> None:
    run = Run(experiment, status=status, devices=["cpu"])
    assert str(run) == f"{status} on [cpu]"
    assert repr(run) == f"<Run {run.name} {status}: {status} on [cpu]>"
    assert (run.sec_per_epoch, run.samples_per_sec, run.metrics) == (None, None, {})
    assert run.to_dict()["run_dir"] is None
    assert run.summary()["bytes_per_step"] is None
    assert "<svg" in run._repr_html_()


def test_the_figure_is_titled_with_what_was_asked_for(run: Run) -> None:
    figure = run.figure()
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert axes.get_title() == "adam:lr=0.5 · linear · airfoil · manual"
    assert [line.get_label() for line in axes.lines] == ["train", "test", "known optimum 0.2417"]


def test_a_notebook_shows_the_line_and_the_curve(run: Run) -> None:
    run.devices = ["<cpu>"]
    text = run._repr_html_()
    paragraph, svg = text[: text.index("<svg")], text[text.index("<svg") :]
    assert paragraph == "<p>loss: 0.243, 0.025 sec/epoch on [&lt;cpu&gt;]</p>"
    names = {group.get("id") for group in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")}
    assert names >= {"train_loss", "test_loss", "known_optimum"}
