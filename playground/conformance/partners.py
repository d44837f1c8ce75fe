"""What else is installed and takes part in a check: its faults are not those of the component that is checked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from playground.conformance.checks import refuses
from playground.conformance.problems import Trained, equals, experiment, on, reference, train
from playground.errors import RequestError
from playground.experiment import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playground.experiment import Experiment
    from playground.registry import Registry


def tried(asked: Experiment) -> Trained | BaseException:
    """What `train` comes to, or what it raises: for what takes part in a check without being what is checked. Ctrl-C
    is the user's own."""
    try:
        return train(asked)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error


def partners(registry: Registry, kind: str) -> list[Choice]:
    """The installed components of a kind at their defaults, for checks of another kind; without those that need a value
    or cannot be loaded."""
    found = []
    for registration in registry.of_kind(kind):
        with contextlib.suppress(RequestError):
            found.append(Choice.of(registration, {}))
    return found


def sound_backends(registry: Registry, *counts: int) -> tuple[dict[str, Choice], list[str]]:
    """The installed exact backends on each number of replicas that they take, by what they are called, and the names of
    those that do not come to one device's numbers with the kit's own parts: they say nothing about another component.
    """
    expected = train(experiment(backend=reference()))
    found: dict[str, Choice] = {}
    unfit = []
    for partner in partners(registry, "backend"):
        if not partner.registration.has("exact"):
            continue
        taken, whole = {}, True
        for count in counts:
            backend = on(partner, count)
            trained = tried(experiment(backend=backend))
            if isinstance(trained, BaseException) and refuses(trained):
                # It takes one device, say, which is its right.
                continue
            whole = whole and not isinstance(trained, BaseException) and equals(trained, expected)
            taken[f"{partner.name} on {count}"] = backend
        if whole:
            found |= taken
        else:
            unfit.append(partner.name)
    return found, unfit


def left_out(unfit: Sequence[str]) -> str:
    """What a check says of the partners that were of no use to it."""
    return f"; left out as faulty: {', '.join(unfit)}" if unfit else ""
