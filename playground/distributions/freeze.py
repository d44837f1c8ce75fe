"""The installed plugins as lines that pip installs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playground.distributions.installed import installed
from playground.registry import HOME

if TYPE_CHECKING:
    from playground.distributions.installed import Installed


def freeze() -> dict[str, str]:
    """A requirement for each distribution with plugins, this project's own left out, in the order of their names."""
    return {one.name: _requirement(one) for _, one in sorted(installed().items()) if one.name != HOME}


def _requirement(one: Installed) -> str:
    origin = one.origin
    url = origin.get("url", "")
    if vcs := origin.get("vcs_info"):
        inside = origin.get("subdirectory")
        below = f"#subdirectory={inside}" if inside else ""
        return f"{one.name} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}{below}"
    if origin.get("dir_info", {}).get("editable"):
        return f"-e {url}"
    return f"{one.name} @ {url}" if url else f"{one.name}=={one.version}"
