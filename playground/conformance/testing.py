"""The kit as pytest classes: subclass one and name a component."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from playground.conformance.checks import ConformanceError
from playground.conformance.report import checks_of, subject_of
from playground.registry import Registry

if TYPE_CHECKING:
    from playground.components import Component
    from playground.conformance.checks import Check, Outcome


_decided: dict[tuple[type, Check], Outcome] = {}


class _Conformance:
    """A test for each check of a kind; what is not applicable is skipped with its reason.

    component: a name, an expression such as `"lion:lr=0.01"`, or a component that no plugin provides.
    """

    kind: ClassVar[str]
    component: ClassVar[str | Component]

    @classmethod
    def registry(cls) -> Registry:
        """The plugins among which the component is looked for; by default those that are installed."""
        return _installed()

    @classmethod
    def outcome(cls, check: Check) -> Outcome:
        """How a check ends; a decisive one, which every test asks about, is looked at once."""
        if (cls, check) in _decided:
            return _decided[cls, check]
        outcome = check(subject_of(check, cls.kind, cls.component, cls.registry()))
        if check.decisive:
            _decided[cls, check] = outcome
        return outcome

    def test_conformance(self, check: Check) -> None:
        if not hasattr(type(self), "component"):
            pytest.fail(f"{type(self).__name__} names no component", pytrace=False)
        for earlier in itertools.takewhile(lambda one: one != check, checks_of(self.kind)):
            if earlier.decisive and self.outcome(earlier).verdict == "fail":
                pytest.skip(f"{earlier.name} fails")
        outcome = self.outcome(check)
        if outcome.verdict == "n/a":
            pytest.skip(outcome.evidence)
        if outcome.verdict == "fail":
            error = outcome.error
            raised = error.__cause__ if isinstance(error, ConformanceError) else error
            if raised is None:
                pytest.fail(f"{check.demand}\n{outcome.evidence}", pytrace=False)
            # The component's own code raised it, and its author wants to see where.
            raise AssertionError(f"{check.demand}\n{outcome.evidence}") from raised


@cache
def _installed() -> Registry:
    return Registry()


def _parametrized(kind: str) -> Any:
    return pytest.mark.parametrize("check", [pytest.param(one, id=one.name) for one in checks_of(kind)])


@_parametrized("optimizer")
class OptimizerConformance(_Conformance):
    """The checks of an optimizer."""

    kind = "optimizer"


@_parametrized("model")
class ModelConformance(_Conformance):
    """The checks of a model."""

    kind = "model"


@_parametrized("data")
class DataConformance(_Conformance):
    """The checks of a data set."""

    kind = "data"


@_parametrized("backend")
class BackendConformance(_Conformance):
    """The checks of a backend."""

    kind = "backend"
