"""A report: every check of a component, and how it ended."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playground.components import KINDS, Component
from playground.conformance.checks import Check, Subject
from playground.conformance.problems import OWN
from playground.errors import RequestError
from playground.experiment import Choice
from playground.expressions import parse
from playground.registry import Registration, Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playground.conformance.checks import Checks, Outcome

MODULES = {"data": "data", "model": "models", "optimizer": "optimizers", "backend": "backends"}


@dataclass(frozen=True)
class Report:
    """How the checks of a component ended."""

    choice: Choice
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(outcome.verdict != "fail" for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.choice.registration.kind,
            "component": str(self.choice),
            **{key: value for key, value in self.choice.registration.provenance.items() if key != "name"},
            "passed": self.passed,
            "checks": [
                {
                    "check": outcome.check.name,
                    "verdict": outcome.verdict,
                    "evidence": outcome.evidence,
                    "demand": outcome.check.demand,
                }
                for outcome in self.outcomes
            ],
        }


def checks_of(kind: str) -> list[Check]:
    """The checks of a kind, that it can be loaded at first."""
    checks: Checks = importlib.import_module(f"playground.conformance.{MODULES[kind]}").CHECKS
    return [LOADING, *checks]


def check(kind: str, component: str | Component | Mapping[str, Any], registry: Registry | None = None) -> Report:
    """Check a component.

    component: a name or an expression (`"lion:lr=0.01"`), or a component that no plugin provides (yet).
    Raises RequestError where there is no such component, or it has not these parameters.
    """
    registry = Registry() if registry is None else registry
    registration, asked = _meant(kind, component, registry)
    first, *others = checks_of(kind)
    # What cannot be loaded has no parameters to be asked for.
    outcomes = [first(Subject(Choice(registration, {}), registry))]
    if outcomes[0].verdict == "fail":
        return Report(Choice(registration, {}), tuple(outcomes))
    subject = Subject(Choice.of(registration, asked), registry)
    for one in others:
        outcomes.append(one(subject))
        if one.decisive and outcomes[-1].verdict == "fail":
            break
    return Report(subject.choice, tuple(outcomes))


def subject_of(check: Check, kind: str, component: str | Component | Mapping[str, Any], registry: Registry) -> Subject:
    """What a check by itself looks at: what a component's name or expression means. Raises RequestError."""
    registration, asked = _meant(kind, component, registry)
    return Subject(Choice(registration, {}) if check is LOADING else Choice.of(registration, asked), registry)


def _meant(
    kind: str, component: str | Component | Mapping[str, Any], registry: Registry
) -> tuple[Registration, dict[str, Any]]:
    if kind not in KINDS:
        raise RequestError(f"there is no kind '{kind}'; there are: {', '.join(KINDS)}")
    if isinstance(component, Component):
        return Registration(component, OWN, component.name), {}
    if isinstance(component, str):
        name, asked = parse(component)
    else:
        asked = dict(component)
        name = asked.pop("name")
    return registry.get(kind, name), asked


def _load(subject: Subject) -> str:
    parameters = subject.choice.registration.parameters
    return ", ".join([*parameters, *parameters.further]) or "no parameters"


LOADING = Check("is-loaded", "Its factory can be imported and its parameters can be read.", _load, decisive=True)
