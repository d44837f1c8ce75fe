"""The conformance kit: checks any component, the project's own included, before it is trusted.

`playground check KIND NAME` runs it, and so does pytest:

    from playground.conformance import OptimizerConformance

    class TestLion(OptimizerConformance):
        component = "lion"
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playground.conformance.checks import Check, Outcome
    from playground.conformance.report import Report, check
    from playground.conformance.testing import (
        BackendConformance,
        DataConformance,
        ModelConformance,
        OptimizerConformance,
    )

_HOME_OF = {
    "Check": "checks",
    "Outcome": "checks",
    "Report": "report",
    "check": "report",
    # These import pytest, which `playground check` does not need.
    "BackendConformance": "testing",
    "DataConformance": "testing",
    "ModelConformance": "testing",
    "OptimizerConformance": "testing",
}

__all__ = [
    "BackendConformance",
    "Check",
    "DataConformance",
    "ModelConformance",
    "OptimizerConformance",
    "Outcome",
    "Report",
    "check",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home when it is first asked for (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'playground.conformance' has no attribute '{name}'")
    return getattr(importlib.import_module(f"playground.conformance.{_HOME_OF[name]}"), name)
