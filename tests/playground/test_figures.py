"""The figures: what is in them, whatever the numbers are."""

from __future__ import annotations

import io
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from playground.figures import LOG_FROM, curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAN, INF = math.nan, math.inf


def records(*losses: float | None, split: str = "train") -> list[dict[str, float | None]]:
    return [{"step": float(n), "epoch": n / 2, f"{split}_loss": loss} for n, loss in enumerate(losses)]


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def svg(figure: Figure) -> str:
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg")
    ET.fromstring(drawing.getvalue())
    return drawing.getvalue()


def test_the_curve_is_the_loss_over_the_epochs() -> None:
    axes = axes_of(curve(records(0.5, 0.3, 0.25), None, "a title"))
    (line,) = axes.lines
    assert list(line.get_xdata()) == [0, 0.5, 1]
    assert list(line.get_ydata()) == [0.5, 0.3, 0.25]
    assert line.get_label() == "train"
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("epoch", "loss", "a title")
    assert axes.get_yscale() == "linear"


def test_the_test_loss_has_a_curve_of_its_own() -> None:
    both = [{**one, "test_loss": 2.0} for one in records(0.5, 0.3)]
    axes = axes_of(curve(both, None, ""))
    assert [line.get_label() for line in axes.lines] == ["train", "test"]
    assert list(axes.lines[1].get_ydata()) == [2, 2]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["train", "test"]


def test_the_known_optimum_is_a_line_across_and_is_named_with_its_value() -> None:
    axes = axes_of(curve(records(0.5, 0.3), 0.24168795, ""))
    _, line = axes.lines
    assert list(line.get_ydata()) == [0.24168795, 0.24168795]
    assert list(line.get_xdata()) == [0, 1]
    assert line.get_transform() == axes.get_yaxis_transform()
    assert line.get_label() == "known optimum 0.2417"


@pytest.mark.parametrize("gap", [NAN, INF, -INF, None])
def test_a_loss_that_is_not_finite_is_left_out(gap: float | None) -> None:
    (line,) = axes_of(curve(records(0.5, gap, 0.25), None, "")).lines
    assert list(line.get_xdata()) == [0, 1]
    assert list(line.get_ydata()) == [0.5, 0.25]


@pytest.mark.parametrize("losses", [(), (NAN,), (NAN, INF)])
def test_a_run_without_a_single_finite_loss_still_has_a_figure(losses: tuple[float, ...]) -> None:
    figure = curve(records(*losses), None, "nothing")
    assert len(axes_of(figure).lines) == 0
    svg(figure)


def test_a_single_record_has_a_figure() -> None:
    svg(curve(records(0.5), 0.2, ""))


@pytest.mark.parametrize(
    ("losses", "optimum", "scale"),
    [
        ((1.0, 1 / LOG_FROM), None, "linear"),
        ((1.0, 0.99 / LOG_FROM), None, "log"),
        ((1.0, 0.5), 0.001, "log"),
        ((1.0, 0.5), 0.2, "linear"),
        ((1000.0, 0.0), None, "linear"),
        ((1000.0, 1.0), 0.0, "linear"),
        ((1000.0, 1.0), -1e-18, "linear"),
    ],
)
def test_a_loss_that_falls_far_is_drawn_on_a_logarithmic_axis_if_it_can_be(
    losses: tuple[float, ...], optimum: float | None, scale: str
) -> None:
    figure = curve(records(*losses), optimum, "")
    assert axes_of(figure).get_yscale() == scale
    svg(figure)


@pytest.mark.parametrize("loss", [1e-300, 1e30, 1e300])
def test_losses_of_any_size_can_be_drawn(loss: float) -> None:
    svg(curve(records(loss, loss / 2), None, ""))


@pytest.mark.parametrize("title", ["", "$", "a_$1 · b$2", "<&>\"'", r"\frac{", "sgd:lr=0.1 · linear"])
def test_a_title_is_taken_letter_by_letter(title: str) -> None:
    figure = curve(records(0.5, 0.3), None, title)
    assert axes_of(figure).get_title() == title
    svg(figure)


def test_the_curve_and_the_optimum_are_found_in_the_svg_by_name() -> None:
    both = [{**one, "test_loss": 2.0} for one in records(0.5, 0.3)]
    root = ET.fromstring(svg(curve(both, 0.24, "")))
    names = {group.get("id") for group in root.iter("{http://www.w3.org/2000/svg}g")}
    assert names >= {"train_loss", "test_loss", "known_optimum"}


def test_where_the_training_rows_are_not_evaluated_the_loss_of_the_steps_is_drawn() -> None:
    losses = zip((None, 0.9, 0.7), (1.0, 0.8, 0.6), strict=True)
    both = [{"epoch": float(n), "step_loss": step, "test_loss": test} for n, (step, test) in enumerate(losses)]
    axes = axes_of(curve(both, None, ""))
    assert [(line.get_label(), line.get_gid()) for line in axes.lines] == [
        ("training steps", "step_loss"),
        ("test", "test_loss"),
    ]
    # Before the first step there is none.
    assert list(axes.lines[0].get_xdata()) == [1, 2]
    assert list(axes.lines[0].get_ydata()) == [0.9, 0.7]
    assert list(axes.lines[1].get_ydata()) == [1, 0.8, 0.6]


def test_the_loss_of_the_steps_is_not_drawn_beside_that_of_the_training_rows() -> None:
    axes = axes_of(curve([{**one, "step_loss": 2.0} for one in records(0.5, 0.3)], None, ""))
    assert [line.get_gid() for line in axes.lines] == ["train_loss"]


def classified(*accuracies: tuple[float | None, float | None]) -> list[dict[str, float | None]]:
    return [
        {"epoch": float(n), "train_loss": 0.5, "test_loss": 0.6, "train_accuracy": train, "test_accuracy": test}
        for n, (train, test) in enumerate(accuracies)
    ]


def test_accuracies_have_a_panel_of_their_own_beside_the_losses() -> None:
    figure = curve(classified((0.1, 0.2), (0.8, 0.7)), 0.25, "a title")
    losses, accuracies = figure.axes
    assert [line.get_gid() for line in losses.lines] == ["train_loss", "test_loss", "known_optimum"]
    assert [(line.get_label(), line.get_gid()) for line in accuracies.lines] == [
        ("train", "train_accuracy"),
        ("test", "test_accuracy"),
    ]
    assert [list(line.get_ydata()) for line in accuracies.lines] == [[0.1, 0.8], [0.2, 0.7]]
    assert (losses.get_ylabel(), accuracies.get_ylabel(), accuracies.get_xlabel()) == ("loss", "accuracy", "epoch")
    assert accuracies.get_legend() is not None
    # Over both panels, once.
    assert (figure.get_suptitle(), losses.get_title(), accuracies.get_title()) == ("a title", "", "")
    svg(figure)


def test_the_test_accuracy_alone_is_drawn_alone() -> None:
    alone = [{"epoch": float(n), "test_loss": 0.5, "test_accuracy": value} for n, value in enumerate((0.25, 0.75))]
    _, accuracies = curve(alone, None, "").axes
    (line,) = accuracies.lines
    assert (line.get_gid(), list(line.get_ydata())) == ("test_accuracy", [0.25, 0.75])


def test_an_accuracy_that_is_no_number_is_left_out_and_without_any_there_is_no_panel() -> None:
    _, accuracies = curve(classified((0.1, None), (NAN, None), (0.8, None)), None, "").axes
    (line,) = accuracies.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 2], [0.1, 0.8])
    assert len(curve(classified((None, NAN)), None, "").axes) == 1


@pytest.mark.parametrize("title", ["$", "a_$1 · b$2", r"\frac{"])
def test_the_title_over_two_panels_is_taken_letter_by_letter(title: str) -> None:
    figure = curve(classified((0.1, 0.2)), None, title)
    assert figure.get_suptitle() == title
    svg(figure)


def test_drawing_imports_no_pyplot() -> None:
    program = (
        "import sys, io, playground.figures as f\n"
        "f.curve([{'epoch': 0.0, 'train_loss': 1.0}], 0.5, 't').savefig(io.StringIO(), format='svg')\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
