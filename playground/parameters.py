"""A component's parameters, read off its factory's signature, and the fitting of a value to one."""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import itertools
import re
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One parameter of a component: its name, type, default (REQUIRED where it has none) and help."""

    name: str
    hint: Any
    default: Any = REQUIRED
    help: str = ""

    @property
    def type(self) -> str:
        """The type as people write it, e.g. `float | Tensor`."""
        return describe(self.hint)

    def fit(self, value: Any) -> Any:
        """The value as the factory wants it: an int where a float is asked for becomes one, a list a tuple.

        Raises ValueError, naming the parameter and both types, where the value does not fit.
        """
        # A default may be of a type that the hint leaves out (`decay: float = None`); to say it is to say nothing.
        if type(value) is type(self.default) and value == self.default:
            return value
        try:
            return fit(value, self.hint)
        except ValueError:
            raise ValueError(f"{self.name} must be {self.type}, not {value!r}") from None


class Parameters(dict[str, Parameter]):
    """The parameters of a factory by name; `open` where it takes any others too (`**kwargs`)."""

    open: bool = False


def parameters_of(factory: Callable[..., Any], leading: int, defaults: Mapping[str, Any]) -> Parameters:
    """Read a factory's signature, and where a class's `__init__` takes `**kwargs`, what those of its bases add to it.

    leading: how many of its first arguments are passed by the core and are not parameters.
    defaults: what overrides the defaults of the signature.
    Raises ValueError where a default names no parameter.
    """
    signature = inspect.signature(factory)
    hints = _hints(factory)
    found = Parameters()
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found.open = True
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or (
            position >= leading and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ):
            name, hint = parameter.name, hints.get(parameter.name, Any)
            found[name] = Parameter(name, hint, _fitted(defaults.get(name, parameter.default), hint))
    for name, parameter, hint in _handed_on(factory):
        if name not in found:
            found[name] = Parameter(name, hint, _fitted(defaults.get(name, parameter.default), hint))
    for name in defaults:
        if name not in found:
            if not found.open:
                raise ValueError(f"its defaults name '{name}', which its factory does not take")
            found[name] = Parameter(name, Any, defaults[name])
    return found


def _handed_on(factory: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter, Any]]:
    """The optional parameters, with their hints, that the `**kwargs` of a class's `__init__` may reach in its bases."""
    if not inspect.isclass(factory):
        return
    for own, above in itertools.pairwise(_constructors(factory)):
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(own).parameters.values()):
            return
        hints = _hints(above)
        for name, parameter in inspect.signature(above).parameters.items():
            by_name = parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            if by_name and parameter.default is not REQUIRED:
                yield name, parameter, hints.get(name, Any)


def _constructors(factory: type) -> list[Callable[..., Any]]:
    """The `__init__`s written in Python of a class and its bases, in the order in which `super()` reaches them."""
    found = [vars(base).get("__init__") for base in factory.__mro__]
    return [one for one in found if inspect.isfunction(one)]


def with_help(parameters: Parameters, factory: Callable[..., Any]) -> Parameters:
    """The same parameters with the help that the docstring of the factory (or of its `__init__`) gives them."""
    import docstring_parser

    helps: dict[str, str] = {}
    documented = [*reversed(_constructors(factory)), factory] if inspect.isclass(factory) else [factory]
    for one in documented:
        text = inspect.getdoc(one)
        for entry in docstring_parser.parse(text or "").params:
            # torch repeats the default in the text, and a component may have another.
            text = re.sub(r"\s*\(default: ([^()]|\([^()]*\))*\)", "", entry.description or "")
            helps[entry.arg_name] = " ".join(text.split())
    found = Parameters(
        (name, Parameter(name, parameter.hint, parameter.default, helps.get(name, "")))
        for name, parameter in parameters.items()
    )
    found.open = parameters.open
    return found


def _fitted(default: Any, hint: Any) -> Any:
    # `weight_decay: float = 0` and an asked-for 0.0 are one value and must be written alike.
    try:
        return default if default is REQUIRED else fit(default, hint)
    except ValueError:
        return default


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    target = factory.__init__ if inspect.isclass(factory) else factory
    hints: dict[str, Any] = {}
    for name, hint in getattr(target, "__annotations__", {}).items():
        # One by one, and without those that cannot be resolved: a name that is imported for type checkers only must
        # neither make a component unusable nor leave its other parameters unchecked.
        with contextlib.suppress(Exception):
            alone = types.SimpleNamespace(__annotations__={name: hint})
            hints |= typing.get_type_hints(alone, globalns=getattr(target, "__globals__", {}))
    return hints


def describe(hint: Any) -> str:
    """A type hint as people write it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return "any value"
    if hint is type(None):
        return "none"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(describe(argument) for argument in arguments)
    if origin is typing.Literal:
        return " | ".join(str(argument) for argument in arguments)
    if origin is not None and arguments:
        inner = ", ".join("..." if argument is ... else describe(argument) for argument in arguments)
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    return getattr(hint, "__name__", str(hint))


def fit(value: Any, hint: Any) -> Any:
    """The value converted to the hint, without loss; raises ValueError where it does not fit.

    A hint that is not understood accepts everything: refusing is then left to the factory.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _fit_any(value, arguments)
    if origin is typing.Literal:
        for argument in arguments:
            if value == argument and type(value) is type(argument):
                return value
        raise ValueError
    if hint is None or hint is type(None):
        if value is None or value == "none":
            return None
        raise ValueError
    sequence = hint if inspect.isclass(hint) else origin
    if sequence in (list, tuple, collections.abc.Sequence, collections.abc.Iterable):
        return _fit_sequence(value, sequence, arguments)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        try:
            return float(value)
        except OverflowError:
            raise ValueError from None
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is int and isinstance(value, bool):
        raise ValueError
    if not _is_instance(value, hint):
        raise ValueError
    return value


def _is_instance(value: Any, hint: Any) -> bool:
    if hint is Any or not inspect.isclass(hint):
        return True
    try:
        return isinstance(value, hint)
    except TypeError:
        # A class that cannot be asked, such as a Protocol or a TypedDict.
        return True


def _fit_any(value: Any, hints: tuple[Any, ...]) -> Any:
    # The exact type first, so that `int | float` keeps 3 an int, and a str is not taken for a sequence of letters.
    for hint in sorted(hints, key=lambda hint: hint is not type(value)):
        try:
            return fit(value, hint)
        except ValueError:
            continue
    raise ValueError


def _fit_sequence(value: Any, sequence: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError
    if sequence is tuple and arguments and arguments[-1] is not ...:
        if len(arguments) != len(value):
            raise ValueError
        hints = arguments
    else:
        hints = (arguments[0] if arguments else Any,) * len(value)
    fitted = [fit(item, hint) for item, hint in zip(value, hints, strict=True)]
    return fitted if sequence is list else tuple(fitted)
