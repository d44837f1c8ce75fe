"""Components: the light descriptions that plugins return."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

from playground.components import KINDS, Backend, Component, Data, Model, Optimizer, resolve

DATA_FILE = Path(__file__)


def where() -> Path:
    return DATA_FILE


def nowhere() -> None:
    return None


class Made:
    def __call__(self) -> None: ...


# Kinds


def test_there_are_four_kinds_in_the_order_in_which_a_run_needs_them() -> None:
    assert {"data": Data, "model": Model, "optimizer": Optimizer, "backend": Backend} == KINDS
    assert list(KINDS) == ["data", "model", "optimizer", "backend"]


@pytest.mark.parametrize(("kind", "leading"), [(Data, 0), (Model, 2), (Optimizer, 1), (Backend, 0)])
def test_the_core_passes_the_leading_arguments_that_the_contract_says(kind: type[Component], leading: int) -> None:
    assert kind.leading == leading


def test_a_component_says_nothing_that_it_was_not_told() -> None:
    component = Optimizer("lion", "lion:Lion")
    assert (component.name, component.factory, component.summary) == ("lion", "lion:Lion", "")
    assert (dict(component.defaults), component.default, component.closure) == ({}, False, False)
    assert Model("m", "m:m").affine is False
    assert Backend("b", "b:b").exact is True
    assert (dict(Data("d", "d:d").settings), Data("d", "d:d").origin, Data("d", "d:d").path) == ({}, "", None)


def test_a_component_cannot_be_changed() -> None:
    component = Optimizer("lion", "lion:Lion")
    with pytest.raises(dataclasses.FrozenInstanceError):
        component.name = "tiger"  # type: ignore[misc]


def test_all_but_name_and_factory_is_given_by_keyword() -> None:
    with pytest.raises(TypeError):
        Optimizer("lion", "lion:Lion", "a summary")  # type: ignore[misc]


# Its form


@pytest.mark.parametrize("name", ["a", "A1", "3d", "linear-regression", "resnet.18_x"])
def test_a_name_is_letters_digits_dots_underscores_and_hyphens(name: str) -> None:
    assert Data(name, "m:f").name == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "a/b", "a,b", "a=b", "-a", ".a", "_a", "a\n", "é", 5, None])
def test_any_other_name_is_refused_and_named(name: Any) -> None:
    with pytest.raises(ValueError, match=r"named .*: a name is letters, digits, '\.', '_' and '-'$") as refusal:
        Optimizer(name, "m:f")
    assert repr(name) in str(refusal.value)
    assert "optimizer" in str(refusal.value)


@pytest.mark.parametrize("factory", ["m:f", "a.b.c:D.e", "_m:_f", "torch.optim:SGD"])
def test_a_lazy_reference_is_a_module_and_an_attribute(factory: str) -> None:
    assert Optimizer("a", factory).source == factory


@pytest.mark.parametrize("factory", ["", "m", "m:", ":f", "m.f", "m:f:g", "m f", "m:f()", "./m.py:f", "1m:f"])
def test_any_other_reference_is_refused_and_named(factory: str) -> None:
    with pytest.raises(
        ValueError, match=r"^optimizer 'a': factory .* is not of the form 'module:attribute'$"
    ) as refusal:
        Optimizer("a", factory)
    assert repr(factory) in str(refusal.value)


@pytest.mark.parametrize("factory", [None, 5, ["m:f"], {}])
def test_a_factory_that_can_be_neither_called_nor_imported_is_refused(factory: Any) -> None:
    with pytest.raises(TypeError, match=r"^model 'a': factory is a \w+, neither a callable nor a reference$"):
        Model("a", factory)


@pytest.mark.parametrize("summary", [None, 5, ["a"]])
def test_a_summary_that_is_not_a_text_is_refused(summary: Any) -> None:
    with pytest.raises(TypeError, match=r"^data 'a': summary is a \w+, not a str$"):
        Data("a", "m:f", summary=summary)


@pytest.mark.parametrize("defaults", [None, 5, ["lr"], {1: 2}])
def test_defaults_that_are_no_mapping_of_names_are_refused(defaults: Any) -> None:
    with pytest.raises(TypeError, match=r"^optimizer 'a': defaults must be a mapping of parameter names to values$"):
        Optimizer("a", "m:f", defaults=defaults)


@pytest.mark.parametrize("settings", [{"lr": 1}, {"epochs": 1, "batchsize": 2}, {"seed": 3}, {"steps": 5}])
def test_settings_that_no_run_has_are_refused_and_the_known_ones_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"it may have batch_size, epochs, eval_every, evaluate, model, optimizer$"):
        Data("d", "m:f", settings=settings)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        5,
        ["model"],
        {"model": 5},
        {"model": None},
        {"epochs": "many"},
        {"batch_size": 0},
        {"eval_every": 1.5},
        {"optimizer": 0.1},
        {"optimizer": {"name": "sgd"}},
        {"evaluate": True},
        {"evaluate": ["test"]},
    ],
)
def test_settings_of_another_form_are_refused_where_they_are_made(settings: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Data("d", "m:f", settings=settings)


# Its factory


@pytest.mark.parametrize(
    ("factory", "source"),
    [
        ("torch.optim:SGD", "torch.optim:SGD"),
        (where, f"{__name__}:where"),
        (Made, f"{__name__}:Made"),
        (Path.exists, "pathlib:Path.exists"),
    ],
)
def test_the_source_says_where_the_factory_is(factory: Any, source: str) -> None:
    assert Optimizer("a", factory).source == source


@pytest.mark.parametrize("factory", [Made(), functools.partial(where)])
def test_a_factory_without_a_name_has_a_source_too(factory: Any) -> None:
    assert ":" in Optimizer("a", factory).source


def test_a_reference_is_not_followed_until_it_is_asked_for() -> None:
    assert Optimizer("a", "no_such_module:f").name == "a"
    with pytest.raises(ModuleNotFoundError, match=r"no_such_module"):
        resolve("no_such_module:f")


def test_a_reference_leads_to_what_it_names_and_a_callable_to_itself() -> None:
    assert resolve("pathlib:Path.exists") is Path.exists
    assert resolve(where) is where


@pytest.mark.parametrize(
    ("reference", "error"),
    [("json:nothing", AttributeError), ("json.nothing:f", ImportError), ("math:pi", TypeError), ("os:sep", TypeError)],
)
def test_a_reference_that_leads_nowhere_raises(reference: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve(reference)


def test_what_cannot_be_called_is_named() -> None:
    with pytest.raises(TypeError, match=r"^'math:pi' is a float, which cannot be called$"):
        resolve("math:pi")


# Where data lies


@pytest.mark.parametrize("path", [DATA_FILE, where, f"{__name__}:where"])
def test_data_is_located_by_a_path_a_callable_or_a_reference(path: Any) -> None:
    assert Data("d", "m:f", path=path).locate() == DATA_FILE


def test_data_that_is_made_or_not_here_has_no_path() -> None:
    assert Data("d", "m:f").locate() is None
    assert Data("d", "m:f", path=nowhere).locate() is None
