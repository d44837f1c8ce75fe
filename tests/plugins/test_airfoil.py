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


def standardised(values, sample):
    mean, deviation = statistics.fmean(sample), statistics.pstdev(sample)
    return [(value - mean) / deviation for value in values]


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
    expected = [standardised(column, column) for column in zip(*measured(), strict=True)]
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


@pytest.fixture
def numbered(write):
    """A file of 100 rows whose first column is the row's number, and its numbers."""
    table = torch.rand(100, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 50 - 10
    table[:, 0] = torch.arange(100)
    text = "\n".join(" ".join(map(repr, row)) for row in table.tolist())
    return write(text), table


def row_numbers(data):
    """Which rows of the numbered file were trained on and which held out.

    Standardising keeps the order of numbers, so a row's number is its rank among all rows.
    """
    first = torch.cat([data.train[0][:, 0], data.test[0][:, 0]])
    ranks = first.argsort().argsort()
    return ranks[: data.rows], ranks[data.rows :]


def test_held_out_rows_and_training_rows_are_all_the_rows_and_share_none(numbered):
    path, table = numbered
    data = load(holdout=0.2, path=path)
    train, test = row_numbers(data)
    assert len(train) == 80
    assert len(test) == 20
    restored = torch.cat([torch.cat(part, dim=1) for part in (data.train, data.test)]).double()
    sample = table[train]
    restored = restored * sample.std(dim=0, correction=0) + sample.mean(dim=0)
    torch.testing.assert_close(restored, table[torch.cat([train, test])], rtol=1e-5, atol=1e-4)
    assert sorted(restored[:, 0].round().int().tolist()) == list(range(100))


def test_held_out_rows_are_standardised_with_the_statistics_of_the_training_rows(numbered):
    path, table = numbered
    data = load(holdout=0.3, path=path)
    train, test = row_numbers(data)
    for rows, part in ((train, data.train), (test, data.test)):
        for column, actual in enumerate(torch.cat(part, dim=1).T):
            expected = standardised(table[rows, column].tolist(), table[train, column].tolist())
            torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_only_the_rows_that_are_used_are_split(numbered):
    path, table = numbered
    data = load(rows=40, holdout=0.25, path=path)
    train, test = row_numbers(data)
    assert (len(train), len(test)) == (30, 10)
    mean, deviation = table[train, 5].mean(), table[train, 5].std(correction=0)
    torch.testing.assert_close(data.test[1][:, 0], ((table[test, 5] - mean) / deviation).float())


def test_the_training_rows_of_airfoil_have_mean_0_and_deviation_1_and_the_test_rows_have_not():
    data = load(holdout=0.2)
    assert data.rows == 1200
    assert [part.shape for part in data.test] == [(300, 5), (300, 1)]
    assert {part.dtype for part in (*data.train, *data.test)} == {torch.float32}
    train, test = (torch.cat(part, dim=1).double() for part in (data.train, data.test))
    torch.testing.assert_close(train.mean(dim=0), torch.zeros(6).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(train.std(dim=0, correction=0), torch.ones(6).double(), rtol=0, atol=1e-6)
    assert (test.mean(dim=0).abs() > 1e-3).any()


def test_a_note_says_that_the_statistics_are_of_the_training_rows_alone():
    (note,) = load(rows=1000, holdout=0.1).notes
    assert "the 900 training rows alone" in note
    assert "100 of the first 1000 rows held out" in note


def test_the_rows_held_out_are_the_same_for_the_same_seed_and_others_for_another(numbered):
    path, _ = numbered
    chosen = [row_numbers(load(holdout=0.5, path=path, seed=seed))[1].tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2]


def test_a_split_is_by_chance_and_not_the_end_of_the_file(numbered):
    path, _ = numbered
    held = row_numbers(load(holdout=0.2, path=path))[1].tolist()
    assert held != list(range(80, 100))
    assert held != list(range(20))


def test_both_parts_of_a_split_keep_the_order_of_the_file(numbered):
    path, _ = numbered
    for rows in row_numbers(load(holdout=0.2, path=path)):
        assert rows.tolist() == sorted(rows.tolist())


def test_a_split_moves_no_random_stream_but_its_own():
    before = torch.get_rng_state()
    load(holdout=0.2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("holdout", [-0.1, 1.0, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(holdout):
    with pytest.raises(RequestError, match="holdout must be at least 0 and below 1"):
        load(holdout=holdout)


@pytest.mark.parametrize(
    ("rows", "holdout", "parts"),
    [(10, 0.01, "0 to test on and 10 to train on"), (10, 0.99, "10 to test on and 0 to train on")],
)
def test_a_share_that_leaves_a_part_empty_is_refused(rows, holdout, parts):
    with pytest.raises(RequestError, match=parts):
        load(rows=rows, holdout=holdout)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_a_seed_that_no_generator_takes_is_refused(seed):
    with pytest.raises(RequestError, match="seed must be at least 0"):
        load(holdout=0.2, seed=seed)


def test_a_column_that_is_constant_in_the_training_rows_alone_is_refused():
    # The first rows of the file are of one airfoil at one angle of attack.
    with pytest.raises(RequestError, match=r"the 8 training rows of .*\.dat, column 2: 0 in every row"):
        load(rows=10, holdout=0.2)


def test_test_rows_too_far_from_the_training_rows_are_refused(write):
    rows = [f"{i} {i * i} {i % 3} {i % 5} {-i} {i % 7}" for i in range(30)]
    rows[3] = rows[3].replace("3 ", "1e100 ", 1)
    path = write("\n".join(rows))
    # Whether that row is held out is up to the seed; if not, it is a training row like any other.
    refusals = []
    for seed in range(20):
        try:
            load(holdout=0.5, path=path, seed=seed)
        except RequestError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < 20
    assert all("column 1: its numbers are too far apart" in refusal for refusal in refusals)


# Files of one's own


def test_a_file_with_fewer_rows_than_the_book_uses_is_used_whole(write):
    assert load(path=write(GOOD)).rows == 20


def test_a_file_with_more_rows_than_the_book_uses_is_used_up_to_the_books_1500(write):
    assert load(path=write(GOOD * 100)).rows == 1500


def test_an_explicit_number_of_rows_that_a_file_does_not_have_names_the_file(write):
    with pytest.raises(RequestError, match=r"rows must be from 1 to 20, as many as .*mine\.dat has, not 1500"):
        load(rows=1500, path=write(GOOD))


def test_a_tilde_in_a_path_is_the_home_directory(write, monkeypatch):
    home = Path(write(GOOD)).parent
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    assert load(path="~/mine.dat").rows == 20


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\t", " "),
        GOOD.replace("\t", "  \t "),
        GOOD.rstrip("\n"),
        GOOD + "\n",
        GOOD + "  \r\n\n",
        "\ufeff" + GOOD,
        "".join(f"  {line}  \n" for line in GOOD.splitlines()),
    ],
    ids=["CRLF", "spaces", "mixed", "no end of line", "blank line", "blank lines", "byte order mark", "padded"],
)
def test_line_ends_separators_and_blank_lines_at_the_end_do_not_matter(content, write):
    for part, expected in zip(load(path=write(content)).train, load(path=write(GOOD, "other.dat")).train, strict=True):
        assert torch.equal(part, expected)


ROW = "1 2 3 4 5 6\n"

WRONG = {
    "five columns": ("1 2 3 4 5\n", 1, "5 columns, not 6"),
    "seven columns": (ROW + "1 2 3 4 5 6 7\n", 2, "7 columns, not 6"),
    "one column": (ROW + ROW + "1\n", 3, "1 column, not 6"),
    "commas": ("1,2,3,4,5,6\n", 1, "1 column, not 6, separated by tabs or spaces"),
    "blank line between rows": (ROW + "\n" + ROW, 2, "0 columns, not 6"),
    "blank line at the start, CRLF": ("\r\n" + ROW, 1, "0 columns, not 6"),
    "header": ("f alpha c v delta p\n" + ROW, 1, "'f' is not a number"),
    "decimal comma": (ROW + "1 2 3,5 4 5 6\n", 2, "'3,5' is not a number"),
    "underscore": (ROW + "1 2 1_000 4 5 6\n", 2, "'1_000' is not a number"),
    "nan": (ROW + ROW + "1 2 3 nan 5 6\n", 3, "'nan' is not a finite number"),
    "inf": (ROW + "-inf 2 3 4 5 6\r\n", 2, "'-inf' is not a finite number"),
    "overflow": (ROW + "1 2 3 4 5 1e999\n", 2, "'1e999' is not a finite number"),
    "long word": ("1 2 3 4 5 " + "x" * 1000, 1, "'xxxxxxxxxxxx...xxxxxxxxxxxxx' is not a number"),
    "null characters": (ROW + "1 2 3 4 5 \0\n", 2, r"'\x00' is not a number"),
    "foreign digits": (ROW + "1 2 3 4 5 \u0661\n", 2, "'\u0661' is not a number"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0", 1, "not text in UTF-8"),
    "Latin-1": (ROW.encode() + b"1 2 3 4 5 6 \xe9\n", 2, "not text in UTF-8"),
    "UTF-16": (ROW.encode("utf-16"), 1, "not text in UTF-8"),
    "empty": ("", 1, "the file is empty"),
    "blank": ("\n  \r\n\t\n", 1, "the file is empty"),
}


@pytest.mark.parametrize(("content", "line", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_in_one_line_with_its_name_the_line_and_what_is_wrong(content, line, what, write):
    path = write(content)
    with pytest.raises(RequestError) as caught:
        load(path=path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: {what}")
    assert len(message.splitlines()) == 1


# The mean of three times 0.1 is not 0.1, so these columns have a deviation that is tiny and not 0.
CONSTANT = [[0.1, *[float(row * column) for column in range(1, 6)]] for row in range(3)]


@pytest.mark.parametrize("column", range(6))
def test_a_constant_column_is_refused(column, write):
    rows = [[*row[1 : column + 1], row[0], *row[column + 1 :]] for row in CONSTANT]
    path = write("\n".join("\t".join(map(str, row)) for row in rows))
    with pytest.raises(RequestError) as caught:
        load(path=path)
    what = f"column {column + 1}: 0.1 in every row, and a constant cannot be standardised"
    assert str(caught.value) == f"{path}, {what}"


@pytest.mark.parametrize(("small", "large"), [("-1e308", "1e308"), ("1e200", "2e200"), ("0", "1e-300")])
def test_a_column_whose_spread_no_float_can_hold_is_refused(small, large, write):
    path = write(f"1 2 3 4 5 {small}\n2 3 4 5 6 {large}\n")
    with pytest.raises(RequestError) as caught:
        load(path=path)
    assert str(caught.value).startswith(f"{path}, column 6: its numbers are too far apart, or too close together")


def test_a_single_row_is_refused(write):
    path = write(ROW)
    with pytest.raises(RequestError) as caught:
        load(path=path)
    assert str(caught.value) == f"{path}: one row cannot be standardised, it takes two or more"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("{folder}/missing.dat", "No such file or directory"),
        ("{folder}", "Is a directory"),
        ("", "Is a directory"),
        ("{folder}/mine.dat/x", "Not a directory"),
        ("{folder}/" + "x" * 300, "File name too long"),
        ("~nobody-of-this-name/x.dat", "home directory"),
        ("{folder}/a\0b", "null"),
    ],
)
def test_a_path_that_cannot_be_read_is_refused_in_one_line(path, what, write):
    path = path.format(folder=Path(write(GOOD)).parent)
    with pytest.raises(RequestError, match=what) as caught:
        load(path=path)
    message = str(caught.value)
    assert message.startswith("cannot read ")
    assert len(message.splitlines()) == 1


def test_a_file_that_may_not_be_read_is_refused_with_its_name(write, monkeypatch):
    def forbid(self):
        raise PermissionError(13, "Permission denied", str(self))

    path = write(GOOD)
    monkeypatch.setattr(Path, "read_bytes", forbid)
    with pytest.raises(RequestError) as caught:
        load(path=path)
    assert str(caught.value) == f"cannot read {path}: Permission denied"


# The parser, on anything


@settings(deadline=None)
@given(
    table=st.lists(st.tuples(*[FINITE] * 6), min_size=1, max_size=20),
    separator=st.sampled_from(["\t", " ", "  ", " \t"]),
    end=st.sampled_from(["\n", "\r\n"]),
    tail=st.sampled_from(["", "\n", "\r\n", "\n\n", " \n"]),
    form=st.sampled_from(["{!r}", "{:.17g}", "{:+.17e}", "{:.16E}"]),
)
def test_any_table_that_is_written_is_read_back(table, separator, end, tail, form):
    text = end.join(separator.join(map(form.format, row)) for row in table) + tail
    assert parse(text.encode(), "table").tolist() == [list(row) for row in table]


@settings(deadline=None)
@given(st.binary() | st.text(alphabet="0123456789.eE+-naif_ \t\r\n\x0b\x85\u2028").map(str.encode))
def test_any_bytes_give_finite_numbers_or_a_refusal_of_one_line(raw):
    refusal = ""
    try:
        table = parse(raw, "table")
    except RequestError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith("table, line ")
        assert len(refusal.splitlines()) == 1
    else:
        assert table.shape[1] == 6
        assert len(table) >= 1
        assert table.isfinite().all()
