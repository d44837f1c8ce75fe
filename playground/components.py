"""The light descriptions that a plugin's hooks return: what can be chosen, and where its factory is.

A factory is a callable, or a lazy reference `"module:attribute"` that is imported only when the component is used. A
component's parameters are its factory's signature, less the leading arguments that the core itself passes.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, cast

from playground.errors import did_you_mean

Factory = str | Callable[..., Any]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SPLITS = ("train", "test")
"""The parts of a data set."""

REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def resolve(factory: Factory) -> Callable[..., Any]:
    """The callable behind a factory or a lazy reference.

    Raises ImportError or AttributeError where the reference leads nowhere, and whatever the module raises when it is
    imported; TypeError where what it names cannot be called.
    """
    found = _attribute(factory) if isinstance(factory, str) else factory
    if not callable(found):
        raise TypeError(f"'{factory}' is a {type(found).__name__}, which cannot be called")
    return cast("Callable[..., Any]", found)


def _attribute(reference: str) -> Any:
    module, _, path = reference.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            public = [one for one in dir(found) if not one.startswith("_")]
            raise AttributeError(f"'{reference}' leads nowhere: there is no '{name}'{did_you_mean(name, public)}")
        found = getattr(found, name)
    return found


def _check_factory(where: str, name: str, factory: object) -> None:
    """Raise ValueError or TypeError where a field is neither a callable nor a lazy reference."""
    if isinstance(factory, str):
        if not REFERENCE.fullmatch(factory):
            raise ValueError(f"{where}: {name} {factory!r} is not of the form 'module:attribute'")
    elif not callable(factory):
        raise TypeError(f"{where}: {name} is a {type(factory).__name__}, neither a callable nor a reference")


@dataclass(frozen=True)
class Component:
    """One named choice of a kind. Plugins make its subclasses: Data, Model, Optimizer, Backend.

    name: letters, digits, `.`, `_` and `-`; what the user types.
    factory: a callable, or `"module:attribute"`.
    summary: one line for `list`.
    defaults: parameters that override the defaults of the factory's signature.
    default: whether a run takes this component where none of its kind is asked for.

    Raises ValueError or TypeError where a field is not of that form.
    """

    kind: ClassVar[str]
    leading: ClassVar[int] = 0
    """How many leading arguments of the factory the core passes by position."""

    name: str
    factory: Factory
    summary: str = field(default="", kw_only=True)
    defaults: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    default: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ValueError(f"a {self.kind} named {self.name!r}: a name is letters, digits, '.', '_' and '-'")
        where = f"{self.kind} '{self.name}'"
        _check_factory(where, "factory", self.factory)
        if not isinstance(self.summary, str):
            raise TypeError(f"{where}: summary is a {type(self.summary).__name__}, not a str")
        if not isinstance(self.defaults, Mapping) or not all(isinstance(key, str) for key in self.defaults):
            raise TypeError(f"{where}: defaults must be a mapping of parameter names to values")

    @property
    def source(self) -> str:
        """The factory as `module:attribute`, for people to read."""
        if isinstance(self.factory, str):
            return self.factory
        return f"{self.factory.__module__}:{getattr(self.factory, '__qualname__', repr(self.factory))}"


@dataclass(frozen=True)
class Data(Component):
    """A data set. Factory: `(**parameters) -> playground.Dataset`.

    settings: what suits this data where the user says nothing: any of `model` and `optimizer` (expressions), `epochs`,
        `batch_size`, `eval_every`, and `evaluate` (the splits that records are made of, e.g. `test`).
    origin: who made the data, where it is published, and its licence.
    path: where its file or folder is, as a `pathlib.Path`, or a callable or lazy reference that returns it, or returns
        None where it is not on this machine; it must not import torch. None: the data is made, not read.
    fetch: a callable or lazy reference `() -> pathlib.Path` that brings the data to this machine, or sees that they are
        here and whole, and returns where. None: there is nothing to fetch.
    """

    kind: ClassVar[str] = "data"
    SETTINGS: ClassVar[frozenset[str]] = frozenset(
        {"model", "optimizer", "epochs", "batch_size", "eval_every", "evaluate"}
    )

    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    origin: str = field(default="", kw_only=True)
    path: Path | Factory | None = field(default=None, kw_only=True)
    fetch: Factory | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, reference in (("fetch", self.fetch), ("path", self.path)):
            if reference is not None and not isinstance(reference, Path):
                _check_factory(f"data '{self.name}'", name, reference)
        if not isinstance(self.settings, Mapping):
            raise TypeError(f"data '{self.name}': settings is a {type(self.settings).__name__}, not a mapping")
        if not isinstance(self.origin, str):
            raise TypeError(f"data '{self.name}': origin is a {type(self.origin).__name__}, not a str")
        for key, value in self.settings.items():
            if key in ("model", "optimizer", "evaluate"):
                if not isinstance(value, str):
                    raise TypeError(f"data '{self.name}': {key} of its settings is a {type(value).__name__}, not a str")
                if key == "evaluate" and not {one.strip() for one in value.split(",")} <= set(SPLITS):
                    known = " or ".join(SPLITS)
                    raise ValueError(f"data '{self.name}': evaluate of its settings is {value!r}, not {known}")
            elif key in self.SETTINGS and (type(value) is not int or value < 1):
                raise ValueError(f"data '{self.name}': {key} of its settings is {value!r}, not a whole number from 1")
        if unknown := set(self.settings) - self.SETTINGS:
            known = ", ".join(sorted(self.SETTINGS))
            raise ValueError(f"data '{self.name}': settings has {', '.join(sorted(unknown))}; it may have {known}")

    def locate(self) -> Path | None:
        """Where the data lies on this machine; None where it is made, or not here."""
        if self.path is None or isinstance(self.path, Path):
            return self.path
        found = resolve(self.path)()
        if found is not None and not isinstance(found, Path):
            raise TypeError(f"its path is a {type(found).__name__}, not a pathlib.Path")
        return found

    def bring(self) -> Path:
        """Fetch the data to this machine, and return where it is.

        Raises TypeError or FileNotFoundError where what `fetch` returns is no path of something that is here, and
        whatever it raises.
        """
        if self.fetch is None:
            raise TypeError("it has nothing to fetch")
        found = resolve(self.fetch)()
        if not isinstance(found, Path):
            raise TypeError(f"its fetch returns a {type(found).__name__}, not a pathlib.Path")
        if not found.exists():
            raise FileNotFoundError(f"its fetch returns {found}, and nothing is there")
        return found


@dataclass(frozen=True)
class Model(Component):
    """A model. Factory: `(inputs: tuple[int, ...], outputs: int, **parameters) -> torch.nn.Module`.

    `inputs` is the shape of one row, `outputs` how many numbers the model gives for it. A factory draws its initial
    weights from torch's default CPU generator, which the engine has seeded.

    affine: whether, at the default parameters, the outputs are an affine function of the inputs and every such function
        can be reached; then the least squares solution is the best that any optimizer can do on regression data.
    """

    kind: ClassVar[str] = "model"
    leading: ClassVar[int] = 2

    affine: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Optimizer(Component):
    """An optimizer. Factory: `(params, **parameters) -> torch.optim.Optimizer`.

    closure: whether its `step` must be given a closure that evaluates loss and gradient again, as L-BFGS does.
    reference: a callable or lazy reference to an optimizer whose numbers it gives, e.g. `"torch.optim:Adam"`; the
        conformance kit compares the two on the parameters that both have. None: there is none.
    """

    kind: ClassVar[str] = "optimizer"
    leading: ClassVar[int] = 1

    closure: bool = field(default=False, kw_only=True)
    reference: Factory | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference is not None:
            _check_factory(f"optimizer '{self.name}'", "reference", self.reference)


@dataclass(frozen=True)
class Backend(Component):
    """A way of parallel training. Factory: `(**parameters) -> playground.ParallelBackend`.

    exact: whether a step equals the same step on one device, up to the rounding of floating point.
    """

    kind: ClassVar[str] = "backend"

    exact: bool = field(default=True, kw_only=True)


KINDS: Mapping[str, type[Component]] = MappingProxyType({kind.kind: kind for kind in (Data, Model, Optimizer, Backend)})
