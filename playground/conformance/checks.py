"""A check, what it looks at, and how it ends."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from playground.engine.defaults import plain
from playground.engine.randomness import preserved
from playground.errors import ComponentError, RequestError, brief

if TYPE_CHECKING:
    from collections.abc import Callable

    from playground.experiment import Choice
    from playground.registry import Registry

Verdict = Literal["pass", "fail", "n/a"]


@dataclass(frozen=True)
class Subject:
    """What is checked: a component with the parameters that were asked for. registry: what else is installed."""

    choice: Choice
    registry: Registry


class ConformanceError(AssertionError):
    """A component does not keep what its kind promises; the message is the smallest evidence."""


class NotApplicableError(Exception):
    """A check has nothing to look at; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """How a check ended.

    evidence: of a failure; of a pass what is worth knowing; otherwise why there was nothing. error: what was raised
    where it failed, with its traceback.
    """

    check: Check
    verdict: Verdict
    evidence: str = ""
    error: BaseException | None = None


@dataclass(frozen=True)
class Check:
    """One thing that a kind of component promises.

    name: words with dashes. demand: what is asked for, in a sentence. look: looks at a subject; gives what is worth
    knowing, raises ConformanceError or NotApplicableError, and what the component raises. decisive: whether nothing
    else is worth looking at where it fails.
    """

    name: str
    demand: str
    look: Callable[[Subject], str | None]
    decisive: bool = False

    def __call__(self, subject: Subject) -> Outcome:
        """Look at a subject. Whatever its component raises is a failure; only Ctrl-C is the user's own.

        torch's defaults are the plain ones meanwhile; they and the streams of random numbers are left as they were.
        """
        drawn = random.getstate()
        try:
            with plain(), preserved():
                return Outcome(self, "pass", self.look(subject) or "")
        except NotApplicableError as reason:
            return Outcome(self, "n/a", str(reason))
        except ConformanceError as failure:
            return Outcome(self, "fail", str(failure), failure)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Outcome(self, "fail", brief(error), error)
        finally:
            random.setstate(drawn)


class Checks(list[Check]):
    """The checks of a kind, in the order in which they are made."""

    def add(self, look: Callable[[Subject], str | None]) -> Callable[[Subject], str | None]:
        """Make a check of a function: its name from the function's, its demand from the docstring."""
        self._append(look, decisive=False)
        return look

    def add_decisive(self, look: Callable[[Subject], str | None]) -> Callable[[Subject], str | None]:
        """Make the check of whether a component is one of its kind at all."""
        self._append(look, decisive=True)
        return look

    def _append(self, look: Callable[[Subject], str | None], decisive: bool) -> None:
        name, demand = look.__name__.replace("_", "-"), " ".join((look.__doc__ or "").split())
        self.append(Check(name, demand, look, decisive))


def require(holds: bool, evidence: str) -> None:
    """Raise ConformanceError with the evidence unless something holds."""
    if not holds:
        raise ConformanceError(evidence)


def refuses(error: BaseException) -> bool:
    """Whether a component says with this that it does not take what is asked for, and is not broken: a RequestError, or
    the ValueError of a factory."""
    if isinstance(error, ComponentError):
        return isinstance(error.__cause__, (ValueError, RequestError))
    return isinstance(error, RequestError)
