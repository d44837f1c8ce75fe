"""What the project raises on purpose: every message is one or two lines for the person who made the request."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlaygroundError(Exception):
    """Something went wrong whose message says what, where, and what to do."""


class RequestError(PlaygroundError):
    """The request was wrong or cannot be met here; nothing was run and nothing was written."""


class ComponentError(RequestError):
    """A component's factory could not be loaded or refused its arguments; the cause is chained."""


def brief(error: BaseException, limit: int = 400) -> str:
    """An exception as one line: its type, and its message without line breaks, cut at `limit` characters.

    The type is left out of the project's own errors, whose messages say all that there is to say.
    """
    try:
        # Without the C++ frames that torch adds.
        message = " ".join(str(error).partition("Exception raised from ")[0].split())
    except Exception:
        # Its own message is broken; its type still says something.
        message = ""
    if len(message) > limit:
        message = message[: limit - 1] + "…"
    if message and isinstance(error, PlaygroundError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'adagrad'?` where a known word is close, else an empty string."""
    # Whatever the case of the letters; of several spellings of one word the first.
    spellings = {one.lower(): one for one in reversed(list(known))}
    close = [spellings[one] for one in difflib.get_close_matches(word.lower(), list(spellings), n=3)]
    # Letters that changed places first: `adma` is adam, though adamax has more letters in common with it.
    close.sort(key=lambda other: sorted(other.lower()) != sorted(word.lower()))
    return f"; did you mean '{close[0]}'?" if close else ""
