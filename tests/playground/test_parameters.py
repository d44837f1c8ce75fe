"""Parameters: read off a factory's signature, and the fitting of a value to one."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest

from playground.parameters import REQUIRED, Parameter, describe, fit, parameters_of, with_help

if TYPE_CHECKING:
    from nowhere import Schedule


def optimizer(
    params: Iterable[Any],
    lr: float = 1,
    betas: tuple[float, float] = (0.9, 0.999),
    mode: Literal["fast", "exact"] = "fast",
    steps: int | None = None,
    *,
    required: bool,
) -> None:
    """An optimizer.

    Args:
        lr: the learning rate,
            in weights a step.
        betas: decay of the two means.
        nobody: is not a parameter.
    """


class Model:
    """A model.

    Args:
        width: of the hidden layer.
        depth: from the class.
    """

    def __init__(self, inputs: tuple[int, ...], outputs: int, width: int = 8, depth: int = 1) -> None:
        """Args:
        depth: from the initialiser.
        """


class Callback:
    def __call__(self, params: Iterable[Any], lr: float = 0.5) -> None: ...


class Deeper(Model):
    def __init__(self, inputs: tuple[int, ...], outputs: int, height: int = 3, **options: Any) -> None:
        super().__init__(inputs, outputs, **options)


class Closed(Deeper):
    """Hands nothing on."""

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__(inputs, outputs, height=4)


def with_unresolvable_hint(params: Iterable[Any], schedule: Schedule = None, rate=0.5) -> None: ...


def with_others(params: Iterable[Any], lr: float = 0.1, **others: Any) -> None: ...


def with_many_leading(*leading: Any, width: int = 3) -> None: ...


def summary(factory: Callable[..., Any], leading: int, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        name: (parameter.type, parameter.default)
        for name, parameter in parameters_of(factory, leading, defaults or {}).items()
    }


# Reading a signature


def test_names_types_and_defaults_are_those_of_the_signature() -> None:
    assert summary(optimizer, 1) == {
        "lr": ("float", 1.0),
        "betas": ("tuple[float, float]", (0.9, 0.999)),
        "mode": ("fast | exact", "fast"),
        "steps": ("int | none", None),
        "required": ("bool", REQUIRED),
    }


def test_an_argument_that_the_core_passes_is_no_parameter() -> None:
    assert list(parameters_of(Model, 2, {})) == ["width", "depth"]
    assert list(parameters_of(Model, 0, {})) == ["inputs", "outputs", "width", "depth"]


def test_a_keyword_only_argument_is_a_parameter_whatever_the_core_passes_by_position() -> None:
    assert list(parameters_of(with_many_leading, 2, {})) == ["width"]


def test_a_default_of_the_signature_is_written_in_its_type() -> None:
    default = parameters_of(optimizer, 1, {})["lr"].default
    assert (default, type(default)) == (1.0, float)


def test_defaults_of_the_component_override_those_of_the_signature() -> None:
    found = summary(optimizer, 1, {"lr": 2, "betas": [0.5, 1], "required": True})
    assert found["lr"] == ("float", 2.0)
    assert found["betas"] == ("tuple[float, float]", (0.5, 1.0))
    assert found["required"] == ("bool", True)
    assert found["steps"] == ("int | none", None)


def test_a_default_of_the_component_that_its_factory_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^its defaults name 'rate', which its factory does not take$"):
        parameters_of(optimizer, 1, {"rate": 1})


def test_a_factory_with_keyword_arguments_takes_any_parameter() -> None:
    found = parameters_of(with_others, 1, {"momentum": 0.9})
    assert found.open
    assert {name: parameter.default for name, parameter in found.items()} == {"lr": 0.1, "momentum": 0.9}
    assert not parameters_of(optimizer, 1, {}).open


def test_a_callable_object_has_the_parameters_of_its_call() -> None:
    assert list(parameters_of(Callback(), 1, {})) == ["lr"]


def test_a_partial_function_has_the_parameters_that_are_left_and_its_own_defaults() -> None:
    found = parameters_of(functools.partial(optimizer, required=True, lr=0.5), 1, {})
    assert found["lr"].default == 0.5
    assert found["required"].default is True


def test_a_parameter_without_a_hint_or_with_one_that_cannot_be_resolved_accepts_anything() -> None:
    found = parameters_of(with_unresolvable_hint, 1, {})
    assert found["schedule"].default is None
    assert found["rate"].type == "any value"
    for value in (None, True, 3, "cosine", [1], {"a": 1}):
        assert found["schedule"].fit(value) == value
        assert found["rate"].fit(value) == value


# Help


def test_help_is_that_of_the_docstring_on_one_line() -> None:
    found = with_help(parameters_of(optimizer, 1, {}), optimizer)
    assert found["lr"].help == "the learning rate, in weights a step."
    assert found["betas"].help == "decay of the two means."
    assert found["steps"].help == ""
    assert "nobody" not in found


def test_help_changes_nothing_else() -> None:
    for factory, leading in ((optimizer, 1), (Model, 2), (with_others, 1)):
        before = parameters_of(factory, leading, {})
        after = with_help(before, factory)
        assert {name: (one.hint, one.default) for name, one in before.items()} == {
            name: (one.hint, one.default) for name, one in after.items()
        }
        assert after.open == before.open


def test_help_of_a_class_is_that_of_the_class_and_of_its_initialiser() -> None:
    found = with_help(parameters_of(Model, 2, {}), Model)
    assert found["width"].help == "of the hidden layer."
    assert found["depth"].help == "from the class."


# Fitting a value

Metres = NewType("Metres", float)
T = TypeVar("T")
# As plugins for older Pythons still write them.
OPTIONAL = Optional[float]  # noqa: UP045
UNION = Union[int, str, list[str]]  # noqa: UP007


class Rule(Protocol):
    def rate(self, step: int) -> float: ...


class Options(TypedDict):
    depth: int


@pytest.mark.parametrize(
    ("value", "hint", "fitted"),
    [
        (1, float, 1.0),
        (1.5, float, 1.5),
        (-(2**53), float, -9007199254740992.0),
        (3, int, 3),
        (10**400, int, 10**400),
        (True, bool, True),
        ("ring", str, "ring"),
        ("none", str, "none"),
        # None, and the word for it.
        (None, type(None), None),
        (None, int | None, None),
        (None, OPTIONAL, None),
        ("none", float | None, None),
        ("none", str | None, "none"),
        # Lists and tuples.
        ([1, 2], tuple[float, float], (1.0, 2.0)),
        ((1, 2), list[float], [1.0, 2.0]),
        ([1, 2, 3], tuple[int, ...], (1, 2, 3)),
        ([], tuple[int, ...], ()),
        ([], list[int], []),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([[1], [2, 3]], list[tuple[float, ...]], [(1.0,), (2.0, 3.0)]),
        ([1], Sequence[float], (1.0,)),
        ([1], Iterable[int], (1,)),
        ([1, "a", None], list, [1, "a", None]),
        ([1, "a", None], tuple, (1, "a", None)),
        ([1, None], list[float | None], [1.0, None]),
        # Literals, of their very type.
        ("fast", Literal["fast", "exact"], "fast"),
        (2, Literal[1, 2], 2),
        (None, Literal["fast"] | None, None),
        # Unions: the exact type first.
        (3, int | float, 3),
        (3, float | int, 3),
        (3.5, int | float, 3.5),
        (3, float | str, 3.0),
        ("a", list[str] | str, "a"),
        (["a"], str | list[str], ["a"]),
        (True, bool | float, True),
        (2, UNION, 2),
        # Hints that are not understood accept everything.
        (3, Any, 3),
        ("a", Any, "a"),
        (3, Metres, 3),
        ("a", T, "a"),
        ("cosine", Rule, "cosine"),
        (3, Rule | None, 3),
        ({"depth": 1}, Options, {"depth": 1}),
        ({"a": 1}, dict[str, int], {"a": 1}),
    ],
)
def test_a_value_that_fits_is_converted_to_the_type_without_loss(value: Any, hint: Any, fitted: Any) -> None:
    result = fit(value, hint)
    assert (result, repr(result)) == (fitted, repr(fitted))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        # A boolean is no number, and a number no boolean.
        (True, float),
        (True, int),
        (1, bool),
        (True, int | float),
        ([True], list[int]),
        # A number is not cut, nor made infinite.
        (1.0, int),
        (1.5, int),
        (10**400, float),
        # A word is no number, a number no word.
        ("1", int),
        ("0.1", float),
        (1, str),
        (None, int),
        (None, str),
        ("None", int | None),
        (5, type(None)),
        # Lists.
        (1, list[int]),
        (0.9, tuple[float, float]),
        ("ab", list[str]),
        ("ab", tuple[str, ...]),
        ("ab", Sequence[str]),
        (["a"], list[int]),
        ([1, 2, 3], tuple[float, float]),
        ([1], tuple[float, float]),
        ([[1], "a"], list[list[int]]),
        ([1], int),
        ([1], str | int),
        # Literals.
        ("slow", Literal["fast", "exact"]),
        ("Fast", Literal["fast", "exact"]),
        (True, Literal[1]),
        (1.0, Literal[1]),
        (["fast"], Literal["fast"]),
        ({"a": 1}, int | None),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, hint: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the business of Parameter.fit
        fit(value, hint)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (Parameter("lr", float), "x", "lr must be float, not 'x'"),
        (Parameter("lr", float), True, "lr must be float, not True"),
        (Parameter("rows", int | None), 1.5, "rows must be int | none, not 1.5"),
        (Parameter("betas", tuple[float, float]), 0.9, "betas must be tuple[float, float], not 0.9"),
        (Parameter("reduce", Literal["star", "ring"]), "rin", "reduce must be star | ring, not 'rin'"),
        (Parameter("devices", int | str | list[str]), None, "devices must be int | str | list[str], not None"),
    ],
)
def test_a_refusal_names_the_parameter_its_type_and_the_value(parameter: Parameter, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole message is compared
        parameter.fit(value)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (float, "float"),
        (type(None), "none"),
        (Any, "any value"),
        (int | None, "int | none"),
        (OPTIONAL, "float | none"),
        (Literal["a", "b", 3], "a | b | 3"),
        (Literal["a"] | None, "a | none"),
        (tuple[int, ...], "tuple[int, ...]"),
        (list[float | None], "list[float | none]"),
        (dict[str, int], "dict[str, int]"),
        (list, "list"),
        (pathlib.Path, "Path"),
    ],
)
def test_a_type_is_written_as_people_write_it(hint: Any, words: str) -> None:
    assert describe(hint) == words
    assert Parameter("x", hint).type == words


def test_what_a_constructor_hands_on_to_its_base_is_its_parameter_too() -> None:
    found = parameters_of(Deeper, 2, {"depth": 4})
    assert [(one.name, one.type, one.default) for one in found.values()] == [("height", "int", 3), ("depth", "int", 4)]
    # Which width it has where nobody says one, its own constructor decides.
    assert {name: one.type for name, one in found.further.items()} == {"width": "int"}
    assert found.named("width") is found.further["width"]
    assert not found.open
    assert with_help(found, Deeper).further["width"].help == "of the hidden layer."
    assert with_help(found, Deeper)["depth"].help == "from the class."
    closed = parameters_of(Closed, 2, {})
    assert (dict(closed), closed.further, closed.open) == ({}, {}, False)


def test_what_the_core_passes_is_no_parameter_of_a_base() -> None:
    class Base:
        def __init__(self, inputs: Any = (1,), outputs: int = 10, width: int = 1) -> None: ...

    class Sub(Base):
        def __init__(self, inputs: Any, outputs: int, **options: Any) -> None:
            super().__init__(inputs, outputs, **options)

    assert list(parameters_of(Sub, 2, {}).further) == ["width"]


def test_a_class_that_keeps_what_it_is_given_takes_anything() -> None:
    class Keeps:
        def __init__(self, inputs: Any, outputs: int, **options: Any) -> None:
            self.options = options

    found = parameters_of(Keeps, 2, {"depth": 4})
    assert (found.open, found.further, found["depth"].default) == (True, {}, 4)
