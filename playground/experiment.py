"""Experiment: all that determines a run, put together from defaults, a file and flags, and validated."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from playground.components import KINDS, SPLITS, Data
from playground.errors import RequestError, did_you_mean
from playground.expressions import format_expression, parse, parse_value
from playground.parameters import REQUIRED

if TYPE_CHECKING:
    from pathlib import Path

    from playground.registry import Registration, Registry

SHORTCUTS = {"lr": "optimizer", "devices": "backend"}
"""Words that are a parameter of a component, since people ask for them most."""

DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Choice:
    """A component and the parameters that were asked for; the rest are its defaults."""

    registration: Registration
    asked: Mapping[str, Any]

    @classmethod
    def of(cls, registration: Registration, asked: Mapping[str, Any]) -> Choice:
        """Validate what was asked for. Raises RequestError on an unknown, missing or ill-typed parameter."""
        known = registration.parameters
        fitted = {}
        for key, value in asked.items():
            parameter = known.named(key)
            if parameter is None and not known.open:
                names = [*known, *known.further]
                hint = did_you_mean(key, names) or f"; it has: {', '.join(names) or 'none'}"
                raise RequestError(f"{registration.kind} '{registration.name}' has no parameter '{key}'{hint}")
            try:
                fitted[key] = value if parameter is None else parameter.fit(value)
            except ValueError as error:
                raise RequestError(f"{registration.kind} '{registration.name}': {error}") from None
        missing = [name for name, one in known.items() if one.default is REQUIRED and name not in fitted]
        if missing:
            raise RequestError(f"{registration.kind} '{registration.name}' needs a value for {', '.join(missing)}")
        return cls(registration, fitted)

    @property
    def name(self) -> str:
        return self.registration.name

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters: the defaults, and what was asked for."""
        return {name: one.default for name, one in self.registration.parameters.items()} | dict(self.asked)

    @property
    def is_default(self) -> bool:
        """Whether every parameter has its default."""
        known = self.registration.parameters
        return all(name in known and known[name].default == value for name, value in self.asked.items())

    @property
    def words(self) -> str | dict[str, Any]:
        """The component with all its parameters, as `of` takes it."""
        if "name" in self.parameters:
            return format_expression(self.name, self.parameters)
        return {"name": self.name, **self.parameters}

    def build(self, *leading: Any) -> Any:
        """What the component's factory makes. Raises ComponentError."""
        return self.registration.build(*leading, **self.asked)

    def __str__(self) -> str:
        return format_expression(self.name, dict(self.asked))


@dataclass(frozen=True)
class Experiment:
    """All that determines a run.

    epochs: passes over the training rows. steps: updates to stop after, in the place of epochs; one of the two is None.
    batch_size: rows of a global batch, over all replicas. seed: of initial weights, order of rows, dropout.
    eval_every: samples between evaluations; None: once an epoch. evaluate: the splits that are evaluated; None: all
        that the data has. dtype: `float32` or `float64`.
    """

    data: Choice
    model: Choice
    optimizer: Choice
    backend: Choice
    epochs: int | None = 4
    steps: int | None = None
    batch_size: int = 10
    seed: int = 0
    eval_every: int | None = None
    evaluate: tuple[str, ...] | None = None
    dtype: str = "float32"

    @classmethod
    def of(cls, registry: Registry, *layers: Mapping[str, Any]) -> Experiment:
        """Put an experiment together from layers of words, the later ones beating the earlier ones.

        A layer maps words (the fields above, `lr`, `devices`) to values; a component is an expression or a table with
        its `name` and parameters. A component that a later layer names brings its own defaults: the learning rate of
        the one that it replaces does not stick to it. Raises RequestError on anything that is not right.
        """
        words: dict[str, Any] = {}
        for layer in layers:
            words = _over(words, _normal(layer))
        found: dict[str, tuple[Registration, dict[str, Any]]] = {}
        for kind in KINDS:
            name, asked = words.get(kind, (None, {}))
            registration = registry.default(kind) if name is None else registry.get(kind, name)
            found[kind] = (registration, asked)
            if kind == "data":
                words = _over(suggested(registry, registration), words)
        # Only now, since reading parameters imports torch, which a misspelt name need not wait for.
        choices = {kind: Choice.of(registration, asked) for kind, (registration, asked) in found.items()}
        plain = {key: _VALIDATE[key](key, value) for key, value in words.items() if key not in KINDS}
        if "steps" in plain:
            plain["epochs"] = None
        _positive("lr", choices["optimizer"].parameters.get("lr"))
        return cls(**{**choices, **plain})

    def __getitem__(self, kind: str) -> Choice:
        return cast("Choice", getattr(self, kind))

    def to_dict(self) -> dict[str, Any]:
        """The experiment in the words that `of` takes, every parameter spelt out."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            found[field.name] = value.words if isinstance(value, Choice) else _spoken(value)
        return found

    @property
    def identity(self) -> str:
        """A digest that two experiments share if and only if they are the same in every parameter."""
        said = self.to_dict()
        for kind in KINDS:
            # Not the name that is said, which is qualified or not depending on what else is installed.
            provenance = self[kind].registration.provenance
            said[kind] = [provenance["distribution"], provenance["name"], self[kind].parameters]
        text = json.dumps(said, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def suggested(registry: Registry, data: Registration) -> dict[str, Any]:
    """What suits a data set, in words with components as (name, parameters); these are the ones that its author means.

    Raises RequestError where its settings say nothing that can be understood.
    """
    words = _normal(cast("Data", data.component).settings)
    for kind in {"model", "optimizer"} & words.keys():
        name, parameters = words[kind]
        words[kind] = (registry.meant_by(data.plugin, kind, name), parameters)
    return words


def read(path: Path) -> dict[str, Any]:
    """The words of an experiment file (TOML). Raises RequestError, naming the file and what is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"cannot read the experiment file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the experiment file {path} is not TOML: {error}") from error


def _normal(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer with underscores in its words, components as (name or None, parameters), and shortcuts put into them."""
    words: dict[str, Any] = {}
    known = [*(field.name for field in fields(Experiment)), *SHORTCUTS]
    for word, value in layer.items():
        if not isinstance(word, str):
            raise RequestError(f"an experiment's words are strings, not {word!r}")
        key = word.replace("-", "_")
        if key not in known:
            hint = did_you_mean(key, known) or f"; it has: {', '.join(known)}"
            raise RequestError(f"an experiment has no '{word}'{hint}")
        if key in words:
            raise RequestError(f"'{word}' is given twice")
        if value is not None:
            words[key] = _component(key, value) if key in KINDS else value
    if "epochs" in words and "steps" in words:
        raise RequestError("a run ends after so many epochs or after so many steps; give one of the two")
    for shortcut, kind in SHORTCUTS.items():
        if shortcut in words:
            name, parameters = words.get(kind, (None, {}))
            if shortcut in parameters:
                raise RequestError(f"'{shortcut}' is given twice: by itself and in {kind} '{name}'")
            value = words.pop(shortcut)
            # As in an expression, so that `--devices 2` and `manual:devices=2` are one experiment.
            words[kind] = (name, {**parameters, shortcut: parse_value(value) if isinstance(value, str) else value})
    return words


def _over(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    merged = {**lower, **upper}
    for one, other in (("epochs", "steps"), ("steps", "epochs")):
        # One takes the other's place.
        if one in upper:
            merged.pop(other, None)
    for kind in KINDS:
        if kind in upper and upper[kind][0] is None and kind in lower:
            name, parameters = lower[kind]
            merged[kind] = (name, {**parameters, **upper[kind][1]})
    return merged


def _component(kind: str, value: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Mapping) and isinstance(value.get("name"), str) and all(isinstance(key, str) for key in value):
        return value["name"], {key: item for key, item in value.items() if key != "name"}
    raise RequestError(f"{kind} must be an expression (NAME:KEY=VALUE) or a table with a name, not {value!r}")


MOST = 10**1000
"""No number that means anything is larger, and Python does not write out much larger ones."""


def _whole(least: int, name: str, value: Any) -> int:
    try:
        # numpy's integers too, which notebooks are full of.
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= MOST:
        said = repr(value) if abs(number) <= MOST else "a number of more than 1000 digits"
        raise RequestError(f"{name.replace('_', '-')} must be a whole number, {least} or more, not {said}")
    return number


def _positive(name: str, value: Any) -> None:
    if isinstance(value, int | float) and not (math.isfinite(value) and value > 0):
        raise RequestError(f"{name} must be a positive, finite number, not {value!r}")


def _known_dtype(name: str, value: Any) -> str:
    if value not in DTYPES:
        raise RequestError(f"{name} must be {' or '.join(DTYPES)}, not {value!r}{did_you_mean(str(value), DTYPES)}")
    return str(value)


def _splits(name: str, value: Any) -> tuple[str, ...]:
    asked = value.split(",") if isinstance(value, str) else value
    asked = [one.strip() if isinstance(one, str) else one for one in asked] if isinstance(asked, list | tuple) else []
    if not asked or not all(one in SPLITS for one in asked):
        raise RequestError(f"{name} must be {' or '.join(SPLITS)}, or both, not {value!r}")
    return tuple(one for one in SPLITS if one in asked)


def _spoken(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


_VALIDATE: dict[str, Callable[[str, Any], Any]] = {
    "epochs": lambda name, value: _whole(1, name, value),
    "steps": lambda name, value: _whole(1, name, value),
    "batch_size": lambda name, value: _whole(1, name, value),
    "seed": lambda name, value: _whole(0, name, value),
    "eval_every": lambda name, value: _whole(1, name, value),
    "evaluate": _splits,
    "dtype": _known_dtype,
}
