"""The user's config file, TOML, for what holds for every call. So far one table:

[plugins]
disable = ["lion", "playground-gossip"]
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from playground.errors import RequestError, did_you_mean

CONFIG = "PLAYGROUND_CONFIG"
"""The environment variable that names another file."""

KNOWN = {"plugins": {"disable"}}


def path() -> Path | None:
    """The config file, which need not exist; None for a user without a home."""
    if told := os.environ.get(CONFIG):
        return Path(told)
    # Only now: it is asked for once a call, and not at all by `--help`.
    import platformdirs

    try:
        return platformdirs.user_config_path("playground", appauthor=False) / "config.toml"
    except RuntimeError:
        return None


def disabled() -> list[str]:
    """The plugins that the file disables. Raises RequestError, naming the file and the fault, where it is not right."""
    where = path()
    found = {} if where is None else _read(where)
    return list(found.get("plugins", {}).get("disable", []))


def _read(where: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(where.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if os.environ.get(CONFIG):
            raise RequestError(f"${CONFIG} names {where}, which is not there") from None
        return {}
    except OSError as error:
        raise RequestError(f"cannot read the config file {where}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the config file {where} is not TOML: {error}") from error
    _check(where, found)
    return found


def _check(where: Path, found: dict[str, Any]) -> None:
    for table, entries in found.items():
        if table not in KNOWN:
            raise RequestError(f"the config file {where} has '{table}'{_known(table, KNOWN)}")
        if not isinstance(entries, dict):
            raise RequestError(f"the config file {where}: '{table}' must be a table, [{table}]")
        for key in entries:
            if key not in KNOWN[table]:
                raise RequestError(f"the config file {where} has '{key}' in [{table}]{_known(key, KNOWN[table])}")
    names = found.get("plugins", {}).get("disable", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"the config file {where}: disable in [plugins] must be a list of names of plugins")


def _known(word: str, known: Any) -> str:
    return did_you_mean(word, known) or f"; it may have: {', '.join(sorted(known))}"
