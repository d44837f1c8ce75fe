"""The scaling table: its figures by hand, its notes and its drawing; and timing from Python."""

from __future__ import annotations

import io
import json
import statistics
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch

from playground import Experiment, Registry, RequestError
from playground.engine.backend import Plan
from playground.engine.ledger import Ledger
from playground.runs import execution
from playground.runs.journal import Observer
from playground.runs.run import Run
from playground.runs.scale import scale
from playground.runs.scaling import Mode, Point, Scaling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from playground.engine.training import Record

ROWS = 1000
"""Rows of an epoch of the runs that are made by hand."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry()


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of devices is so many replicas on the CPU, whatever the machine has."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda *_, **__: False)


@pytest.fixture(scope="module")
def point(registry: Registry) -> Callable[..., Point]:
    """Makes a point by hand: a run for each number of seconds that an epoch took, or for each ledger's phases."""

    def make(
        devices: int,
        *epochs: float | dict[str, float],
        batch_size: int = 100,
        base: int | None = None,
        lr: float = 0.5,
        threads: int = 1,
        status: Any = "done",
        device: str = "cpu",
        **words: Any,
    ) -> Point:
        experiment = Experiment.of(registry, {"backend": "manual", "batch_size": batch_size, "lr": lr, **words})
        places = [
            torch.device(device, number) if device != "cpu" else torch.device(device) for number in range(devices)
        ]
        made = Point(devices, base or batch_size, experiment, Plan(tuple(places), threads))
        for epoch in epochs:
            phases = {"compute": epoch} if isinstance(epoch, float) else epoch
            # Ten epochs, so that a mistake between a run and an epoch shows.
            ledger = Ledger(10, 10 * ROWS, 0, 10 * sum(phases.values()), {name: 10 * s for name, s in phases.items()})
            made.runs.append(Run(experiment, status=status, steps=10, samples=10 * ROWS, epochs_done=10, timed=ledger))
        return made

    return make


def table(*points: Point, scaling: Mode = "strong", scale_lr: bool = False) -> Scaling:
    return Scaling(list(points), scaling, scale_lr, warm_up=0, repeats=1)


# Speed-up, efficiency, serial fraction


@pytest.mark.parametrize(
    ("devices", "baseline", "epoch", "speed_up", "efficiency", "serial_fraction"),
    [
        # (1/1.8 − 1/2) ÷ (1 − 1/2)
        (2, 1.8, 1.0, 1.8, 0.9, 1 / 9),
        (2, 2.0, 1.0, 2.0, 1.0, 0.0),
        # As fast as one device: all of it is serial.
        (2, 1.0, 1.0, 1.0, 0.5, 1.0),
        # (1/2 − 1/4) ÷ (3/4)
        (4, 2.0, 1.0, 2.0, 0.5, 1 / 3),
        # Twice as slow: (2 − 1/2) ÷ (1/2)
        (2, 1.0, 2.0, 0.5, 0.25, 3.0),
        # More than twice as fast: (2/5 − 1/2) ÷ (1/2)
        (2, 2.5, 1.0, 2.5, 1.25, -0.2),
    ],
)
def test_the_figures_of_a_point_are_those_worked_out_by_hand(
    point: Callable[..., Point],
    devices: int,
    baseline: float,
    epoch: float,
    speed_up: float,
    efficiency: float,
    serial_fraction: float,
) -> None:
    first, other = table(point(1, baseline), point(devices, epoch)).rows
    assert (first["sec_per_epoch"], first["samples_per_sec"]) == pytest.approx((baseline, ROWS / baseline))
    assert (other["sec_per_epoch"], other["samples_per_sec"]) == pytest.approx((epoch, ROWS / epoch))
    assert other["speed_up"] == pytest.approx(speed_up)
    assert other["efficiency"] == pytest.approx(efficiency)
    assert other["serial_fraction"] == pytest.approx(serial_fraction, abs=1e-12)
    assert (first["speed_up"], first["efficiency"], first["serial_fraction"]) == (1, 1, None)


def test_each_point_is_compared_with_one_device_at_the_batch_size_that_was_asked_for(
    point: Callable[..., Point],
) -> None:
    made = table(
        point(1, 4.0, batch_size=10),
        point(2, 2.0, batch_size=20, base=10),
        point(1, 3.0, batch_size=20),
        point(2, 1.0, batch_size=40, base=20),
        scaling="weak",
    )
    assert [row["baseline"] for row in made.rows] == [True, False, True, False]
    assert [row["speed_up"] for row in made.rows] == pytest.approx([1, 2, 1, 3])


def test_figures_are_medians_over_the_runs_of_a_point(point: Callable[..., Point]) -> None:
    first, other = table(point(1, 9.0, 2.0, 1.0), point(2, 1.0, 1.0, 100.0)).rows
    assert (first["sec_per_epoch"], other["sec_per_epoch"]) == pytest.approx((2, 1))
    assert other["speed_up"] == pytest.approx(2)


def test_the_time_of_a_point_is_shared_out_among_its_phases(point: Callable[..., Point]) -> None:
    (row,) = table(point(1, {"feed": 0.5, "compute": 1.0, "communicate": 0.0, "update": 0.5})).rows
    assert row["time"] == pytest.approx(
        {"feed": 0.25, "compute": 0.5, "communicate": 0.0, "update": 0.25, "other": 0.0}
    )


@pytest.mark.parametrize("status", ["failed", "stopped", "running"])
def test_a_run_that_did_not_come_to_its_end_is_not_timed(point: Callable[..., Point], status: str) -> None:
    first, other = table(point(1, 1.0), point(2, 1.0, status=status)).rows
    assert first["speed_up"] == 1
    assert [other[key] for key in ("sec_per_epoch", "samples_per_sec", "speed_up", "efficiency")] == [None] * 4


def test_a_run_that_diverged_is_timed(point: Callable[..., Point]) -> None:
    _, other = table(point(1, 1.0), point(2, 0.625, status="diverged")).rows
    assert (other["status"], other["speed_up"]) == ("diverged", pytest.approx(1.6))


def test_without_a_timed_baseline_there_is_a_time_and_no_speed_up(point: Callable[..., Point]) -> None:
    first, other = table(point(1, 1.0, status="failed"), point(2, 2.0)).rows
    assert (first["speed_up"], other["speed_up"], other["serial_fraction"]) == (None, None, None)
    assert other["sec_per_epoch"] == pytest.approx(2)


def test_a_point_has_the_worst_end_of_its_runs(point: Callable[..., Point]) -> None:
    one = point(2)
    assert one.status == "missing"
    ends = []
    for status in ("done", "diverged", "stopped"):
        one.runs += point(2, 1.0, status=status).runs
        ends.append(one.status)
    one.errors.append("boom")
    assert [*ends, one.status] == ["done", "diverged", "stopped", "failed"]


# Notes


def test_the_baseline_is_stated_with_its_device_its_threads_and_its_batch(point: Callable[..., Point]) -> None:
    (said, *_) = table(point(1, 1.0, batch_size=64, threads=4), point(2, 1.0, batch_size=64, threads=2)).notes
    assert said == "baseline of batches of 64: manual on one device (cpu, 4 threads), a speed-up of 1"


def test_the_threads_of_an_accelerators_host_are_not_stated(point: Callable[..., Point]) -> None:
    made = table(point(1, 1.0, device="cuda", threads=4), point(2, 0.5, device="cuda", threads=4))
    assert made.notes[0] == "baseline of batches of 100: manual on one device (cuda:0), a speed-up of 1"
    assert not [text for text in made.notes if "thread" in text]
    assert made.rows[1]["on"] == ["cuda:0", "cuda:1"]


def test_cpu_replicas_are_said_to_share_threads_and_a_different_number_of_them_is_stated(
    point: Callable[..., Point],
) -> None:
    made = table(point(1, 1.0, threads=4), point(2, 1.0, threads=2), point(3, 1.0, threads=1))
    assert [text for text in made.notes if "share the machine's threads" in text]
    assert [text for text in made.notes if "in all, the baseline" in text] == [
        "3 devices have 3 threads in all, the baseline has 4; the same would be a fairer comparison"
    ]
    assert [row["threads"] for row in made.rows] == [4, 4, 3]


def test_the_notes_say_which_phases_lost_the_time_of_slower_devices(point: Callable[..., Point]) -> None:
    made = table(
        point(1, {"feed": 0.1, "compute": 0.8, "communicate": 0.0, "update": 0.1}),
        point(2, {"feed": 0.1, "compute": 0.85, "communicate": 0.8, "update": 0.25}),
        point(4, {"feed": 0.05, "compute": 0.4, "communicate": 0.2, "update": 0.1}),
    )
    slower = [text for text in made.notes if "slower" in text]
    assert slower == [
        "2 devices with batches of 100 are slower than one: an epoch takes 2 s, not 1 s; "
        "0.8 s more for communicate and 0.15 s more for update"
    ]


def test_a_phase_that_one_device_does_not_have_is_among_those_that_lost_time(point: Callable[..., Point]) -> None:
    made = table(point(1, {"compute": 1.0}), point(2, {"compute": 1.0, "gossip": 0.5}))
    (slower,) = [text for text in made.notes if "slower" in text]
    assert slower.endswith("an epoch takes 1.5 s, not 1 s; 0.5 s more for gossip")
    assert made.rows[1]["time"]["gossip"] == pytest.approx(1 / 3)


def test_the_learning_rate_is_said_to_be_the_same_in_every_row(point: Callable[..., Point]) -> None:
    assert [text for text in table(point(1, 1.0)).notes if "learning rate is the same in every row" in text]


def test_a_scaled_learning_rate_is_said_to_grow_from_that_of_the_smallest_batch(point: Callable[..., Point]) -> None:
    made = table(point(1, 1.0, batch_size=64, lr=0.5), point(1, 1.0, batch_size=32, lr=0.25), scale_lr=True)
    assert "--scale-lr: the learning rate grows with the batch, from 0.25 at 32 rows" in made.notes


def test_what_runs_note_is_said_once(point: Callable[..., Point]) -> None:
    points = [point(1, 1.0), point(2, 1.0)]
    for one in points:
        one.runs[0].notes.append("an algorithm is imitated")
    points[1].runs[0].notes.append("a batch is more than all rows")
    notes = table(*points).notes
    assert notes.count("an algorithm is imitated") == 1
    # What is not true of all rows is said of those of which it is.
    assert [text for text in notes if "more than all rows" in text] == [
        "2 devices, batches of 100: a batch is more than all rows"
    ]


# The figure


def lines_of(figure: Figure) -> dict[str, tuple[str, list[float], list[float]]]:
    """The lines by their group names: label, devices, speed-ups. The drawing must be valid."""
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg")
    svg = ET.fromstring(drawing.getvalue())
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("devices", "speed-up")
    found = {}
    for line in axes.lines:
        gid = str(line.get_gid())
        assert svg.find(f".//{{*}}g[@id='{gid}']") is not None
        found[gid] = (str(line.get_label()), list(line.get_xdata()), list(line.get_ydata()))
    return found


def test_the_figure_has_a_measured_line_a_batch_size_and_two_ideals_for_cpu_replicas(
    point: Callable[..., Point],
) -> None:
    made = table(
        point(1, 2.0, batch_size=10, threads=4),
        point(2, 1.0, batch_size=10, threads=2),
        point(4, 4.0, batch_size=10, threads=1),
        point(1, 3.0, batch_size=20, threads=4),
        point(2, 2.0, batch_size=20, threads=2),
        # Not timed, so not drawn.
        point(4, 1.0, batch_size=20, threads=1, status="failed"),
    )
    lines = lines_of(made.figure())
    assert lines.keys() == {"measured_0", "measured_1", "ideal_0", "ideal_1"}
    assert lines["measured_0"] == ("batches of 10", [1, 2, 4], pytest.approx([1, 2, 0.5]))
    assert lines["measured_1"] == ("batches of 20", [1, 2], pytest.approx([1, 1.5]))
    assert lines["ideal_0"][1:] == ([1, 2, 4], [1, 2, 4])
    assert lines["ideal_1"][1:] == ([1, 2, 4], [1, 1, 1])


@pytest.mark.parametrize("hardware", [{"device": "cuda"}, {"device": "cpu", "threads": 1}])
def test_the_figure_has_one_ideal_where_each_device_brings_hardware_of_its_own(
    point: Callable[..., Point], hardware: dict[str, Any]
) -> None:
    made = table(point(1, 1.0, **hardware), point(2, 0.75, **hardware))
    assert lines_of(made.figure()).keys() == {"measured_0", "ideal_0"}
    assert not [text for text in made.notes if "share the machine's threads" in text]


def test_the_figure_of_weak_scaling_names_the_batch_of_a_device(point: Callable[..., Point]) -> None:
    made = table(point(1, 1.0, batch_size=10), point(2, 1.0, batch_size=20, base=10), scaling="weak")
    assert lines_of(made.figure())["measured_0"][0] == "batches of 10 a device"


@pytest.mark.parametrize("status", ["done", "failed"])
def test_the_figure_of_a_single_point_is_valid(point: Callable[..., Point], status: str) -> None:
    lines = lines_of(table(point(1, 1.0, status=status)).figure())
    assert lines["ideal_0"][1:] == ([1], [1])
    assert ("measured_0" in lines) == (status == "done")


def test_the_figure_says_what_was_timed(point: Callable[..., Point]) -> None:
    (axes,) = table(point(1, 1.0, optimizer="adam:lr=0.5", lr=None), scaling="weak").figure().axes
    assert axes.get_title() == "linear · airfoil · adam:lr=0.5 · manual · weak scaling"


# From Python

AIRFOIL: dict[str, Any] = {"backend": "manual", "batch_size": 50, "steps": 3}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("backend", ["manual", "data-parallel"])
def test_what_is_learnt_does_not_depend_on_the_number_of_devices(
    registry: Registry, backend: str, dtype: str, tolerance: float
) -> None:
    # Neither 2 nor 3 divides 25.
    made = scale([{**AIRFOIL, "backend": backend, "dtype": dtype}], [1, 2, 3], [25], registry=registry, out=None)
    losses = [row["metrics"]["train_loss"] for row in made.rows]
    assert len(losses) == 3
    assert losses == pytest.approx([losses[0]] * 3, abs=tolerance, rel=0)
    assert 0.2 < losses[0] < 0.5


@pytest.mark.parametrize(
    ("words", "warm_up", "taken", "timed"),
    [
        ({"steps": 3}, None, 8, 3),
        ({"steps": 3}, 2, 5, 3),
        ({"steps": 3}, 0, 3, 3),
        # An epoch of 20 rows has two steps of 10.
        ({"epochs": 3}, None, 6, 6),
        ({"epochs": 3}, 2, 6, 4),
    ],
)
def test_steps_are_timed_after_the_warm_up(
    registry: Registry, words: dict[str, int], warm_up: int | None, taken: int, timed: int
) -> None:
    layer = {"data": "linear-regression:rows=20", "backend": "manual", "batch_size": 10, **words}
    made = scale([layer], [1, 2], registry=registry, out=None, warm_up=warm_up)
    runs = [run for point in made.points for run in point.runs]
    assert [(run.steps, run.timed.steps, run.timed.samples) for run in runs] == [(taken, timed, 10 * timed)] * 2
    assert made.warm_up == taken - timed


@pytest.mark.parametrize("warm_up", [2, 3])
def test_a_warm_up_that_takes_the_whole_run_leaves_nothing_timed_and_says_so(registry: Registry, warm_up: int) -> None:
    layer = {"data": "linear-regression:rows=20", "backend": "manual", "batch_size": 10, "epochs": 1}
    made = scale([layer], [1], registry=registry, out=None, warm_up=warm_up)
    (row,) = made.rows
    assert [row[key] for key in ("sec_per_epoch", "samples_per_sec", "speed_up")] == [None] * 3
    assert (
        f"1 device, batches of 10: nothing was timed, since its 2 steps are all of the warm-up of {warm_up}"
        in made.notes
    )


def test_repeats_are_rounds_over_all_points_and_the_figures_medians(registry: Registry) -> None:
    said: list[str] = []

    def observer(text: str) -> Observer:
        said.append(text)
        return Observer()

    made = scale([AIRFOIL], [1, 2], registry=registry, out=None, repeats=3, observer=observer)
    assert said == [
        f"{number} of 6: {'1 device' if number % 2 else '2 devices'}, batches of 50" for number in range(1, 7)
    ]
    for point in made.points:
        speeds = [run.samples_per_sec or 0.0 for run in point.runs]
        assert len(speeds) == 3
        assert point.samples_per_sec == statistics.median(speeds)


def test_the_figures_of_a_real_table_agree_with_each_other(registry: Registry) -> None:
    made = scale([AIRFOIL], [1, 2, 3], registry=registry, out=None)
    base = made.rows[0]["samples_per_sec"]
    for row in made.rows:
        assert row["speed_up"] == row["samples_per_sec"] / base
        assert row["efficiency"] == row["speed_up"] / row["devices"]
        assert row["samples_per_sec"] * row["sec_per_epoch"] == pytest.approx(1500)
        assert sum(row["time"].values()) == pytest.approx(1)
        if row["devices"] > 1:
            # Amdahl's law with this serial fraction gives the speed-up back.
            law = 1 / (row["serial_fraction"] + (1 - row["serial_fraction"]) / row["devices"])
            assert law == pytest.approx(row["speed_up"])


def test_without_words_about_devices_one_and_two_replicas_on_the_cpu_are_timed(registry: Registry) -> None:
    made = scale([AIRFOIL], registry=registry, out=None)
    assert [row["on"] for row in made.rows] == [["cpu"], ["cpu", "cpu"]]


def test_without_words_about_devices_one_up_to_all_accelerators_are_timed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playground.runs.scale.available", lambda: [torch.device("cuda", n) for n in range(3)])
    made = scale([AIRFOIL], registry=registry, out=None)
    assert [point.devices for point in made.points] == [1, 2, 3]


def test_out_none_writes_nothing(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = scale([AIRFOIL], [1], registry=registry, out=None)
    assert (made.directory, made.to_dict()["directory"]) == (None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"devices": []}, "numbers of devices"),
        ({"devices": [0]}, "not 0"),
        ({"devices": [-1]}, "not -1"),
        ({"devices": [True]}, "not True"),
        ({"devices": [1.0]}, r"not 1\.0"),
        ({"devices": ["2"]}, "not 2"),
        ({"devices": [10**6]}, "out of range"),
        ({"batch_sizes": [0]}, "batch-size must be a whole number"),
        ({"batch_sizes": [10, 2.5]}, "batch-size must be a whole number"),
        ({"scaling": "sideways"}, "strong or weak"),
        ({"repeats": 0}, "repeats must be a whole number, 1 or more"),
        ({"repeats": 1.0}, "repeats must be a whole number"),
        ({"warm_up": -1}, "warm-up must be a whole number, 0 or more"),
        ({"warm_up": True}, "warm-up must be a whole number"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_run(
    registry: Registry, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    def observer(_: str) -> NoReturn:
        raise AssertionError("a run was begun")

    with pytest.raises(RequestError, match=message):
        scale([AIRFOIL], registry=registry, out=tmp_path / "runs", observer=observer, **arguments)
    assert list(tmp_path.iterdir()) == []


# Interruptions


class Interrupting(Observer):
    """Presses Ctrl-C at a run's first record."""

    def record(self, run: Run, record: Record) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_during_a_later_run_keeps_the_table_so_far(registry: Registry, tmp_path: Path) -> None:
    def observer(said: str) -> Observer:
        return Interrupting() if said.startswith("2 of 3") else Observer()

    made = scale([AIRFOIL], [1, 2, 3], registry=registry, out=tmp_path, observer=observer)
    assert made.stopped
    assert [point.status for point in made.points] == ["done", "stopped", "missing"]
    assert made.directory is not None
    kept = json.loads((made.directory / "scale.json").read_text(encoding="utf-8"))
    assert kept["stopped"] is True
    assert [row["status"] for row in kept["rows"]] == ["done", "stopped", "missing"]


def test_ctrl_c_before_the_first_record_of_a_later_run_keeps_the_table_so_far(
    registry: Registry, tmp_path: Path
) -> None:
    def observer(said: str) -> Observer:
        if said.startswith("2 of 2"):
            raise KeyboardInterrupt
        return Observer()

    made = scale([AIRFOIL], [1, 2], registry=registry, out=tmp_path, observer=observer)
    assert made.stopped
    assert [point.status for point in made.points] == ["done", "missing"]
    assert made.directory is not None
    assert json.loads((made.directory / "scale.json").read_text(encoding="utf-8"))["stopped"] is True


def test_ctrl_c_before_the_first_record_of_the_first_run_leaves_nothing(registry: Registry, tmp_path: Path) -> None:
    def observer(said: str) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scale([AIRFOIL], [1, 2], registry=registry, out=tmp_path, observer=observer)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_the_figure_is_drawn_keeps_the_table_so_far(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("playground.figures.scaling", interrupted)
    made = scale([AIRFOIL], [1, 2], registry=registry, out=tmp_path)
    assert made.stopped
    assert [point.status for point in made.points] == ["done", "missing"]
    assert made.directory is not None
    assert {path.name for path in made.directory.iterdir()} == {"scale.json"}


ONCE = """
from playground import Optimizer, hookimpl

made = 0

def once(params, lr: float = 0.01):
    from torch.optim import SGD

    global made
    made += 1
    # Once more for the steps that are taken before the first run, which belong to none.
    first = made <= 2

    class Once(SGD):
        def step(self, closure=None):
            if first:
                raise RuntimeError("the first run fails")
            return super().step(closure)

    return Once(params, lr=lr)

@hookimpl
def playground_optimizers():
    return [Optimizer("once", once)]
"""


@pytest.fixture
def failing_once(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> Registry:
    """A registry with the optimizer `once`, which fails in its first run."""
    in_process_plugins(install_plugin("optim-once", ONCE))
    return Registry()


def test_ctrl_c_stops_the_rounds_though_an_earlier_run_of_the_point_failed(failing_once: Registry) -> None:
    begun: list[str] = []

    def observer(said: str) -> Observer:
        begun.append(said)
        return Interrupting() if len(begun) == 2 else Observer()

    words = {**AIRFOIL, "optimizer": "once"}
    made = scale([words], [1], registry=failing_once, out=None, repeats=3, observer=observer)
    assert made.stopped
    assert len(begun) == 2
    assert [run.status for run in made.points[0].runs] == ["failed", "stopped"]


def test_of_several_runs_those_that_did_not_fail_are_timed(failing_once: Registry) -> None:
    made = scale([{**AIRFOIL, "optimizer": "once"}], [1], registry=failing_once, out=None, repeats=2)
    (point,) = made.points
    assert [run.status for run in point.runs] == ["failed", "done"]
    assert (point.status, point.samples_per_sec) == ("failed", point.runs[1].samples_per_sec)
    assert point.errors == ["RuntimeError: the first run fails"]


# What cannot be written


def test_a_table_that_cannot_be_written_is_a_remark_and_costs_no_run(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("playground.runs.scale.claim", full)
    made = scale([AIRFOIL], [1, 2], registry=registry, out=tmp_path)
    assert [point.status for point in made.points] == ["done", "done"]
    assert made.directory is None
    (remark,) = [text for text in made.notes if "could not be written" in text]
    assert remark.startswith("the table could not be written: ")
    assert "No space left" in remark


def test_a_run_whose_directory_cannot_be_made_is_a_row_with_its_error(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = execution.RunDirectory.create
    made_so_far: list[Path] = []

    def create(root: Path, facts: dict[str, Any]) -> Any:
        if made_so_far:
            raise RequestError("cannot make a run")
        made_so_far.append(root)
        return real(root, facts)

    monkeypatch.setattr(execution.RunDirectory, "create", create)
    made = scale([AIRFOIL], [1, 2], registry=registry, out=tmp_path)
    assert [(row["status"], row["errors"]) for row in made.rows] == [("done", []), ("failed", ["cannot make a run"])]
