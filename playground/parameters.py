"""A component's parameters, read off its factory's signature, and the fitting of a value to one."""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import re
import types
import typing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    """The parameters of a factory by name.

    further: what the `**kwargs` of a class's `__init__` may hand on to its bases. Their names and types are known, not
        the values that they have where nobody asks for them, since the class may say others than its bases do.
    open: whether it takes any others too.
    """

    further: dict[str, Parameter]
    open: bool

    def __init__(self, own: Iterable[Parameter] = (), further: Iterable[Parameter] = (), *, open: bool = False) -> None:
        super().__init__((one.name, one) for one in own)
        self.further = {one.name: one for one in further if one.name not in self}
        self.open = open

    def named(self, name: str) -> Parameter | None:
        """The parameter of that name, a further one too; None where there is none, though it may be open."""
        return self.get(name) or self.further.get(name)


def parameters_of(factory: Callable[..., Any], leading: int, defaults: Mapping[str, Any]) -> Parameters:
    """Read a factory's signature, and where a class's `__init__` takes `**kwargs`, those of its bases too.

    leading: how many of its first arguments are passed by the core and are not parameters.
    defaults: what overrides the defaults of the signature.
    Raises ValueError where a default names no parameter.
    """
    signature = inspect.signature(factory)
    passed = {one.name for one in list(signature.parameters.values())[:leading] if one.kind is not KEYWORD_ONLY}
    own = [one for one in _named(signature, _hints(factory)) if one.name not in passed]
    further: list[Parameter] = []
    takes_any = _takes_any(signature)
    if takes_any and inspect.isclass(factory):
        _, *above = _constructors(factory)
        for constructor in above:
            signature = inspect.signature(constructor)
            found = _named(signature, _hints(constructor))
            # What a base must be given is given by its subclass.
            further += [one for one in found if one.default is not REQUIRED and one.name not in passed]
            takes_any = _takes_any(signature)
            if not takes_any:
                break
    parameters = Parameters(own, further, open=takes_any)
    for name, value in defaults.items():
        one = parameters.named(name)
        if one is None:
            if not parameters.open:
                raise ValueError(f"its defaults name '{name}', which its factory does not take")
            one = Parameter(name, Any)
        parameters.further.pop(name, None)
        parameters[name] = replace(one, default=value)
    for name, one in parameters.items():
        parameters[name] = replace(one, default=_fitted(one.default, one.hint))
    return parameters


KEYWORD_ONLY, BY_NAME = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def _named(signature: inspect.Signature, hints: Mapping[str, Any]) -> list[Parameter]:
    """What can be passed by name."""
    return [
        Parameter(name, hints.get(name, Any), one.default)
        for name, one in signature.parameters.items()
        if one.kind in (KEYWORD_ONLY, BY_NAME)
    ]


def _takes_any(signature: inspect.Signature) -> bool:
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.parameters.values())


def _constructors(factory: type) -> list[Callable[..., Any]]:
    """The `__init__`s written in Python of a class and its bases, in the order in which `super()` reaches them."""
    found = [vars(base).get("__init__") for base in factory.__mro__]
    return [one for one in found if inspect.isfunction(one)]


def with_help(parameters: Parameters, factory: Callable[..., Any]) -> Parameters:
    """The same parameters with the help that docstrings give: the factory's, or those of the class, its bases and their
    `__init__`."""
    import docstring_parser

    documented: list[Any] = [factory]
    if inspect.isclass(factory):
        # What is nearer has the last word, and the class over its `__init__`.
        documented = [one for base in reversed(factory.__mro__[:-1]) for one in (vars(base).get("__init__"), base)]
    helps: dict[str, str] = {}
    for one in documented:
        text = getattr(one, "__doc__", None)
        for entry in docstring_parser.parse(inspect.cleandoc(text) if isinstance(text, str) else "").params:
            # torch repeats the default in the text, and a component may have another.
            text = re.sub(r"\s*\(default: ([^()]|\([^()]*\))*\)", "", entry.description or "")
            helps[entry.arg_name] = " ".join(text.split())

    def helped(known: Iterable[Parameter]) -> list[Parameter]:
        return [replace(one, help=helps.get(one.name, "")) for one in known]

    return Parameters(helped(parameters.values()), helped(parameters.further.values()), open=parameters.open)


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
