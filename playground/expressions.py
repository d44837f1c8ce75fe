"""Component expressions: `NAME` or `NAME:KEY=VALUE,KEY=VALUE`, where a value is a TOML value or a bare word.

    adam:lr=0.01,betas=[0.9, 0.99]        manual:devices=2,reduce=ring        airfoil:path="a,b.dat"

A number may be written as people do (`.5`, `1e-3`), `none` is no value, and a list may hold bare words.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import Any

from playground.errors import RequestError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NAME = re.compile(r"[\w./-]+")
_KEY = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[^\s,=\[\]\"'#{}][^,\[\]\"'#{}]*")
_MARKS = re.compile(r"[\[\]\"'{}]")
_CLOSES = {"[": "]", "{": "}"}


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the parameters that an expression says. Raises RequestError, naming the part that is wrong."""
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise RequestError(f"'{text}' is not of the form NAME or NAME:KEY=VALUE,KEY=VALUE")
    parameters: dict[str, Any] = {}
    for part in _split(rest, text) if colon else []:
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if equals and value and _KEY.fullmatch(meant := key.replace("-", "_")) and meant != key:
            raise RequestError(f"in '{text}': '{key}' is no name of a parameter; did you mean '{meant}'?")
        if not equals or not _KEY.fullmatch(key) or not value:
            raise RequestError(f"in '{text}': '{part.strip()}' is not of the form KEY=VALUE (a list is [A, B])")
        if key in parameters:
            raise RequestError(f"in '{text}': '{key}' is given twice")
        parameters[key] = parse_value(value)
    return name, parameters


def parse_value(text: str) -> Any:
    """A value: TOML, else a number as people write it, `none`, a list with bare words, or a bare word.

    Raises RequestError where it is none of these, or nested too deeply to be read.
    """
    try:
        return _value(text.strip())
    except RecursionError:
        raise RequestError(f"'{text[:20]}…' is nested too deeply") from None


def _value(text: str) -> Any:
    found = _toml(text)
    if found is not None:
        return found
    if _NUMBER.fullmatch(text):
        return float(text)
    if text == "none":
        return None
    if text.startswith("[") and text.endswith("]"):
        if not (inner := text[1:-1].strip()):
            return []
        items = [part.strip() for part in _split(inner.removesuffix(","), text)]
        if not all(items):
            raise RequestError(f"'{text}' has a gap")
        return [_value(item) for item in items]
    if _MARKS.search(text):
        raise RequestError(f"'{text}' is no value: a word with quotes or brackets in it must be quoted")
    return text


def format_expression(name: str, parameters: dict[str, Any]) -> str:
    """The expression that `parse` reads as this name and these parameters."""
    if not parameters:
        return name
    return f"{name}:" + ",".join(f"{key}={format_value(value)}" for key, value in parameters.items())


def format_value(value: Any) -> str:
    """A value as `parse_value` reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value == value.strip() and parse_value(value) == value
        return value if plain else _quoted(value)
    return str(value)


def _toml_value(value: Any) -> str:
    """A value as TOML alone reads it, without bare words."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return format_value(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(text: str) -> Any:
    """What TOML makes of the text; None where it makes nothing, or a date, which no parameter is."""
    try:
        values = tomllib.loads(f"x = [{text}]")
    except (ValueError, RecursionError):
        return None
    # More than one key or item: the text closed the bracket itself.
    if list(values) != ["x"] or len(values["x"]) != 1:
        return None
    (value,) = values["x"]
    return value if _has_no_date(value) else None


def _has_no_date(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(map(_has_no_date, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool | int | float | str)


def _split(text: str, whole: str) -> list[str]:
    """The parts between the commas that are in no bracket and no quotation."""
    parts, closers, quote, start, escaped = [], [], "", 0, False
    for position, letter in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif letter == "\\" and quote == '"':
                escaped = True
            elif letter == quote:
                quote = ""
        elif letter in "\"'":
            quote = letter
        elif letter in _CLOSES:
            closers.append(_CLOSES[letter])
        elif closers and letter == closers[-1]:
            closers.pop()
        elif letter in "]}":
            raise RequestError(f"in '{whole}': '{letter}' closes nothing")
        elif letter == "," and not closers:
            parts.append(text[start:position])
            start = position + 1
    if quote or closers:
        raise RequestError(f"in '{whole}': {quote or closers[-1]} is missing at the end")
    return [*parts, text[start:]]
