"""Component expressions: what they say, what is refused, and that what is written is read again."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from playground.errors import RequestError
from playground.expressions import format_expression, format_value, parse, parse_value

# Neither the time of an example nor a run before this one has a say in the verdict.
campaign = settings(deadline=None, derandomize=True, max_examples=200)

NAMES = st.from_regex(r"([a-z][a-z0-9_-]{0,6}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
WORDS = [
    "none",
    "true",
    "false",
    "1",
    ".5",
    "1e-3",
    "inf",
    "nan",
    "0x10",
    "1979-05-27",
    "07:32:00",
    "a=b",
    "a#b",
    "a,b",
]
MARKS = [
    "[1]",
    "{}",
    "'",
    '"',
    '"' * 3,
    "\\",
    "\\u0041",
    "",
    " ",
    " padded ",
    "\x00",
    "\x7f",
    "\r\n",
    "\u2028",
    "☃",
    "é\n",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(WORDS + MARKS)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
SYNTAX = st.text(st.sampled_from("ab=:,[]{}\"'#\\ \n\t.-+_01e/é\x00"), max_size=25)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type all the way down: 1, 1.0 and True are three values here, and NaN is itself."""
    return repr(left) == repr(right)


# Round trips


@campaign
@given(NAMES, st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read_again(name: str, parameters: dict[str, Any]) -> None:
    assert same(parse(format_expression(name, parameters)), (name, parameters))


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7976931348623157e308, 2**64, -(2**64)]
)
def test_an_extreme_number_is_read_again(value: float) -> None:
    assert same(parse_value(format_value(value)), value)


@pytest.mark.parametrize("value", [{"a": 1}, {"a": "b c", "n": [1, {"b": True}]}, {"two words": 0.5}, [{"a": []}], {}])
def test_a_table_is_read_again(value: Any) -> None:
    assert same(parse(format_expression("a", {"x": value})), ("a", {"x": value}))


def test_a_tuple_is_read_again_as_a_list() -> None:
    assert format_value((0.9, (1, "cpu"))) == "[0.9, [1, cpu]]"
    assert parse_value("[0.9, [1, cpu]]") == [0.9, [1, "cpu"]]


@campaign
@given(SYNTAX)
def test_what_can_be_read_can_be_written_and_read_again(text: str) -> None:
    try:
        name, parameters = parse(f"a:{text}")
    except RequestError:
        return
    assert same(parse(format_expression(name, parameters)), (name, parameters))


@pytest.mark.parametrize(
    ("name", "parameters", "expression"),
    [
        ("adam", {}, "adam"),
        ("adam", {"lr": 0.01, "betas": [0.9, 0.99], "amsgrad": False}, "adam:lr=0.01,betas=[0.9, 0.99],amsgrad=false"),
        ("manual", {"devices": ["cpu", "cuda:0"], "reduce": "ring"}, "manual:devices=[cpu, cuda:0],reduce=ring"),
        ("airfoil", {"path": "a,b.dat", "rows": None}, 'airfoil:path="a,b.dat",rows=none'),
        ("airfoil", {"path": "C:\\data\\airfoil.dat"}, "airfoil:path=C:\\data\\airfoil.dat"),
        ("a", {"x": "none", "y": "1", "z": ""}, 'a:x="none",y="1",z=""'),
    ],
)
def test_an_expression_is_written_plainly_and_quoted_only_where_it_must_be(
    name: str, parameters: dict[str, Any], expression: str
) -> None:
    assert format_expression(name, parameters) == expression
    assert same(parse(expression), (name, parameters))


# Exact results


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("adam", "adam", {}),
        ("  adam  ", "adam", {}),
        ("optim-playground/adam", "optim-playground/adam", {}),
        ("optim-playground/adam:lr=1", "optim-playground/adam", {"lr": 1}),
        ("adam:lr=0.01,betas=[0.9,0.99]", "adam", {"lr": 0.01, "betas": [0.9, 0.99]}),
        (" adam : lr = 0.01 , betas = [ 0.9 , 0.99 ] ", "adam", {"lr": 0.01, "betas": [0.9, 0.99]}),
        ("manual:devices=2,reduce=ring", "manual", {"devices": 2, "reduce": "ring"}),
        ('airfoil:path="a,b.dat"', "airfoil", {"path": "a,b.dat"}),
        ("airfoil:path='a,b.dat',rows=5", "airfoil", {"path": "a,b.dat", "rows": 5}),
    ],
)
def test_an_expression_is_a_name_and_parameters(text: str, name: str, parameters: dict[str, Any]) -> None:
    assert same(parse(text), (name, parameters))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Numbers, as TOML and as people write them.
        ("0", 0),
        ("-3", -3),
        ("+3", 3),
        ("1_000", 1000),
        ("0x10", 16),
        ("18446744073709551616", 18446744073709551616),
        ("0.01", 0.01),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5e1", 5.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("nan", math.nan),
        # Words of their own.
        ("true", True),
        ("false", False),
        ("none", None),
        # Bare words.
        ("ring", "ring"),
        ("None", "None"),
        ("nonesuch", "nonesuch"),
        ("two words", "two words"),
        ("a=b=c", "a=b=c"),
        ("a#b", "a#b"),
        ("cuda:0", "cuda:0"),
        ("~/data/airfoil.dat", "~/data/airfoil.dat"),
        ("C:\\data\\airfoil.dat", "C:\\data\\airfoil.dat"),
        ("1.2.3", "1.2.3"),
        ("--1", "--1"),
        ("größe", "größe"),
        # No parameter is a date.
        ("1979-05-27", "1979-05-27"),
        ("07:32:00", "07:32:00"),
        ("1979-05-27T07:32:00Z", "1979-05-27T07:32:00Z"),
        ("[1979-05-27, 1]", ["1979-05-27", 1]),
        # Quotations.
        ('"ring"', "ring"),
        ("'ring'", "ring"),
        ('""', ""),
        ('"none"', "none"),
        ('"1"', "1"),
        ('" padded "', " padded "),
        ('"a,b=[c]#d"', "a,b=[c]#d"),
        ('"say \\"no\\"\\n"', 'say "no"\n'),
        ("'C:\\data'", "C:\\data"),
        ('"it\'s"', "it's"),
        # Lists, with bare words too, and tables.
        ("[]", []),
        ("[ ]", []),
        ("[1]", [1]),
        ("[1,]", [1]),
        ("[cpu, cpu]", ["cpu", "cpu"]),
        ("[cuda:0,cuda:1,]", ["cuda:0", "cuda:1"]),
        ("[.5, 1e-3, none, true]", [0.5, 0.001, None, True]),
        ("[[1, a], [], ['b,c']]", [[1, "a"], [], ["b,c"]]),
        ("{a = 1, b = [2]}", {"a": 1, "b": [2]}),
    ],
)
def test_a_value_is_read_as_what_it_says(text: str, value: Any) -> None:
    assert same(parse(f"a:x={text}"), ("a", {"x": value}))
    assert same(parse(f"a:x= {text} ,y=1"), ("a", {"x": value, "y": 1}))


# What is refused


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "'' is not of the form NAME or NAME:KEY=VALUE,KEY=VALUE"),
        ("adam lr", "'adam lr' is not of the form NAME or NAME:KEY=VALUE,KEY=VALUE"),
        ("adam=1", "'adam=1' is not of the form NAME or NAME:KEY=VALUE,KEY=VALUE"),
        (":lr=1", "':lr=1' is not of the form NAME or NAME:KEY=VALUE,KEY=VALUE"),
        ("adam:", "'' is not of the form KEY=VALUE"),
        ("adam:lr", "'lr' is not of the form KEY=VALUE"),
        ("adam:lr=", "'lr=' is not of the form KEY=VALUE"),
        ("adam:lr= ,eps=1", "'lr=' is not of the form KEY=VALUE"),
        ("adam:=1", "'=1' is not of the form KEY=VALUE"),
        ("adam:lr=1,", "'' is not of the form KEY=VALUE"),
        ("adam:lr=1,,eps=1", "'' is not of the form KEY=VALUE"),
        ("adam:betas=0.9,0.99", "'0.99' is not of the form KEY=VALUE (a list is [A, B])"),
        ("adam:weight-decay=1", "'weight-decay' is no name of a parameter; did you mean 'weight_decay'?"),
        ("adam:1st=1", "'1st=1' is not of the form KEY=VALUE"),
        ("adam:lr=1,lr=2", "'lr' is given twice"),
        ("adam:betas=[0.9", "] is missing at the end"),
        ("adam:betas=[0.9,eps=1", "] is missing at the end"),
        ("adam:x={a=1", "} is missing at the end"),
        ('airfoil:path="a', '" is missing at the end'),
        ("airfoil:path='a", "' is missing at the end"),
        ("adam:x=1]", "']' closes nothing"),
        ("adam:x=}", "'}' closes nothing"),
        ("adam:x=[1}", "'}' closes nothing"),
        ("adam:x=1], y=[2", "']' closes nothing"),
    ],
)
def test_a_malformed_expression_is_refused_and_the_part_that_is_wrong_named(text: str, named: str) -> None:
    with pytest.raises(RequestError) as refusal:
        parse(text)
    message = str(refusal.value)
    assert named in message
    assert f"'{text}'" in message


@pytest.mark.parametrize("value", ["[1,,2]", "[,]", "[,1]", "[1,,]"])
def test_a_gap_in_a_list_is_refused_rather_than_filled(value: str) -> None:
    with pytest.raises(RequestError):
        parse(f"a:x={value}")


@pytest.mark.parametrize("value", ['"a"b', '"a" "b"', "{a}", "[1][2]", "{a=}"])
def test_a_quotation_a_table_or_a_list_that_is_not_one_is_no_bare_word(value: str) -> None:
    with pytest.raises(RequestError):
        parse(f"a:x={value}")


@campaign
@given(st.text(st.characters(), max_size=40) | SYNTAX | SYNTAX.map("a:x={}".format))
@example("a:x=" + "[" * 5000 + "]" * 5000)
@example("a:x=" + "{a=" * 5000 + "1" + "}" * 5000)
@example("a:x=" + "9" * 5000)
@example("a:x=[" + "9" * 5000 + "]")
@example("a:x=1e" + "9" * 5000)
@example("a:x=\ud800")
@example('a:x="\\ud800"')
def test_whatever_is_typed_is_read_or_refused_and_never_an_accident(text: str) -> None:
    with contextlib.suppress(RequestError):
        name, parameters = parse(text)
        assert name
        assert all(isinstance(key, str) for key in parameters)


def test_a_value_that_is_nested_too_deeply_is_refused_wherever_it_is_said() -> None:
    deep = "[" * 5000 + "a" + "]" * 5000
    for read in (parse_value, lambda value: parse(f"manual:devices={value}")):
        with pytest.raises(RequestError, match="nested too deeply"):
            read(deep)
