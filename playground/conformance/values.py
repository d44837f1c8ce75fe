"""Other values that a parameter may have, for checks that look at what a change of it does."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

from playground.parameters import REQUIRED, Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playground.experiment import Choice

HOW = ("foreach", "fused", "capturable", "differentiable")
"""Parameters of torch's optimizers that say how the numbers are computed and not which."""


def others(parameter: Parameter, choice: Choice) -> Iterator[Any]:
    """Other values that a parameter may have."""
    value = choice.parameters[parameter.name]
    hints = typing.get_args(parameter.hint) or (parameter.hint,)
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, float):
        # The large ones for thresholds, which small numbers stay below whatever they are.
        yield from ((value / 2, value * 2) if value else (0.1, 0.5))
        yield from (1.0, 100.0)
    elif isinstance(value, int):
        # Small ones, for what happens every so many steps or in the first ones, of which the kit takes few.
        yield from (one for one in (value + 1, max(1, value - 1), value * 3, 2, 3, 5, 10) if one != value)
    elif isinstance(value, tuple | list) and value and all(isinstance(one, float | int) for one in value):
        yield type(value)(one * 0.9 for one in value)
        yield type(value)(1 + (one - 1) * 0.9 for one in value)
    elif typing.get_origin(parameter.hint) is typing.Literal:
        yield from (one for one in hints if one != value)
    elif value is None or value is REQUIRED:
        if bool in hints:
            yield True
        elif float in hints:
            yield from (0.1, 1e-3)
        elif int in hints:
            yield from (1, 2)


def flags(choice: Choice) -> Iterator[dict[str, Any]]:
    """Each flag turned, by itself and, since some need a number beside them, with each number changed."""
    known = choice.registration.parameters
    turned = {
        name: not value for name, value in choice.parameters.items() if isinstance(value, bool) and name not in HOW
    }
    for name, value in turned.items():
        yield {name: value}
        for other in known:
            if isinstance(choice.parameters[other], float) and other != "lr":
                yield {name: value, other: next(others(known[other], choice))}
