"""On how many replicas a backend is tried, and what its numbers are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playground.conformance.checks import NotApplicableError, Subject, refuses, require
from playground.conformance.problems import ROWS, TOLERANCE, Trained, curve, experiment, furthest, on
from playground.engine.assembly import planned
from playground.errors import RequestError, brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playground.experiment import Choice

COUNTS = (1, 2, 3)

MANY = 5
"""More replicas than it takes to be right by chance."""


def backends(subject: Subject, *counts: int) -> Iterator[tuple[int, Choice]]:
    """The backend on each number of replicas that it takes; where all of `COUNTS` are wanted, on the devices that were
    asked for too. Raises NotApplicableError where it takes none of them.
    """
    wanted = [on(subject.choice, count) for count in counts]
    as_asked = "devices" in subject.choice.asked and set(COUNTS) <= set(counts)
    wanted += [subject.choice] * as_asked
    refusals, taken = [], set()
    for backend in wanted:
        try:
            count = len(planned(experiment(backend=backend)).devices)
        except RequestError as error:
            if not refuses(error):
                raise
            refusals.append(brief(error, 200))
            continue
        if count not in taken and (count in counts or (as_asked and backend is subject.choice)):
            taken.add(count)
            yield count, backend
    if not taken:
        many = " or ".join(map(str, counts))
        raise NotApplicableError(f"it does not run on {many} replicas{': ' if refusals else ''}{''.join(refusals[:1])}")


def listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, sorted(counts)))} replica{'s' * (counts != [1])}"


def even(count: int) -> dict[str, Any]:
    """Rows and a batch size of which every cut into so many parts gives equal ones, of two rows or more."""
    size = 12 if 12 % count == 0 and 2 * count <= 12 else 2 * count
    return {"rows": 2 * size, "batch_size": size}


def exact(subject: Subject) -> None:
    if not subject.choice.registration.has("exact"):
        raise NotApplicableError("it says that it is not exact")


def inexact(subject: Subject) -> None:
    if subject.choice.registration.has("exact"):
        raise NotApplicableError("it says that it is exact")


def same(found: Trained, expected: Trained, what: str) -> None:
    """Raise ConformanceError where parameters, buffers or losses are not those that are expected."""
    require(found.model.keys() == expected.model.keys(), f"{what}: its state has {', '.join(found.model)}")
    far, name = furthest(found.model, expected.model)
    require(far <= TOLERANCE, f"{what}: {name} differs by {far:.3g} after {len(found.losses)} steps")
    far = max(abs(one - other) for one, other in zip(found.losses, expected.losses, strict=True))
    require(far <= TOLERANCE * ROWS, f"{what}: the losses are {curve(found.losses)}, not {curve(expected.losses)}")
