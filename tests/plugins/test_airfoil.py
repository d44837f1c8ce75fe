import hashlib
import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playground_plugins.data import AIRFOIL, playground_data
from playground_plugins.data.airfoil import load, parse, read

from playground import RequestError

FINITE = st.floats(allow_nan=False, allow_infinity=False)
GOOD = "\n".join(f"{i}\t{i * i}\t{-i}\t{i / 3}\t{1 / (i + 1)}\t{i % 3}" for i in range(20)) + "\n"


def measured():
    """The file's rows, read in another way than the plugin reads them."""
    return [[float(word) for word in line.split("\t")] for line in AIRFOIL.read_text().splitlines()]


def half_squared_error(outputs, targets):
    return ((outputs - targets) ** 2).mean().item() / 2


@pytest.fixture
def write(tmp_path):
    def write(content, name="mine.dat"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(file)

    return write


# The component


def test_the_plugin_lists_its_data_without_importing_torch():
    code = "import sys, playground_plugins.data as d; d.playground_data(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_airfoil_is_the_default_and_says_what_suits_it_and_whose_it_is():
    (airfoil,) = (one for one in playground_data() if one.default)
    assert airfoil.name == "airfoil"
    assert airfoil.settings == {"model": "linear", "batch_size": 10, "epochs": 4, "eval_every": 200}
    assert "10.24432/C5VW2C" in airfoil.origin
    assert "CC BY 4.0" in airfoil.origin
    assert airfoil.locate().is_file()


def test_the_bundled_file_is_the_one_that_was_published():
    assert hashlib.sha1(AIRFOIL.read_bytes()).hexdigest() == "76e5be1548fd8222e5074cf0faae75edff8cf93f"


def test_every_number_of_the_bundled_file_is_read():
    name, table = read(AIRFOIL)
    assert name == str(AIRFOIL)
    assert table.dtype == torch.float64
    assert table.shape == (1503, 6)
    assert table.tolist() == measured()


# The book's preparation


def test_the_book_uses_the_first_1500_rows_in_the_order_of_the_file():
    inputs, targets = load().train
    assert inputs.shape == (1500, 5)
    assert targets.shape == (1500, 1)
    assert inputs.dtype == targets.dtype == torch.float32
    every_input, every_target = load(rows=1503).train
    assert torch.equal(inputs, every_input[:1500])
    assert torch.equal(targets, every_target[:1500])


def test_the_book_standardises_with_the_statistics_of_every_row_of_the_file():
    columns = list(zip(*measured(), strict=True))
    expected = [
        [(value - statistics.fmean(column)) / statistics.pstdev(column) for value in column] for column in columns
    ]
    actual = torch.cat(load(rows=1503).train, dim=1).T
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(actual.double().mean(dim=1), torch.zeros(6).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(actual.double().std(dim=1, correction=0), torch.ones(6).double(), rtol=0, atol=1e-6)


def test_the_book_has_no_test_rows_and_a_note_says_that_the_statistics_are_of_the_whole_file():
    data = load()
    assert data.test is None
    assert data.task == "regression"
    assert len(data.notes) == 1
    assert "all 1503 rows" in data.notes[0]
    assert "the book's way" in data.notes[0]


def test_the_best_that_a_linear_model_can_reach_is_the_known_optimum():
    inputs, targets = (part.double() for part in load().train)
    design = torch.cat([inputs, torch.ones(len(inputs), 1).double()], dim=1)
    solution = torch.linalg.lstsq(design, targets).solution
    assert half_squared_error(design @ solution, targets) == pytest.approx(0.24169, abs=5e-6)


def test_the_loss_at_zero_weights_is_the_known_one():
    targets = load().train[1].double()
    assert half_squared_error(torch.zeros_like(targets), targets) == pytest.approx(0.49326, abs=5e-6)


@pytest.mark.parametrize("rows", [1, 2, 37, 1503])
def test_as_many_rows_are_used_as_are_asked_for(rows):
    data = load(rows=rows)
    assert data.rows == rows
    assert data.inputs == (5,)
    assert data.outputs == 1


@pytest.mark.parametrize("rows", [-1, 0, 1504])
def test_rows_that_the_file_does_not_have_are_refused(rows):
    with pytest.raises(RequestError, match=rf"rows must be from 1 to 1503, .*, not {rows}$"):
        load(rows=rows)


# Rows held out


def matching_rows(part, rows):
    """The numbers, in the file, of the standardised rows `part`, found by undoing the standardisation."""
    train_inputs, train_targets = part["statistics_of"]
    table = torch.tensor(measured(), dtype=torch.float64)
    sample = table[train_inputs]
    assert train_targets is None
    restored = torch.cat(part["rows"], dim=1).double() * sample.std(dim=0, correction=0) + sample.mean(dim=0)
    distance = torch.cdist(restored / sample.std(dim=0), table[:rows] / sample.std(dim=0))
    return distance
