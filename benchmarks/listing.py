"""How long `playground plugins` takes with 20 plugins installed, beside none and beside an idle interpreter.

The commands take turns, so that a change of the machine's speed meets all of them alike.

    python -m benchmarks.listing [--rounds N] [--plugins N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 0.5

SOURCE = """
from playground import Optimizer, hookimpl

@hookimpl
def playground_optimizers():
    return [Optimizer("quiet-{0}", "torch.optim:SGD")]
"""


def install(site: Path, number: int) -> None:
    """A distribution with one plugin, as pip leaves it on disk."""
    (site / f"quiet_{number}.py").write_text(SOURCE.format(number), encoding="utf-8")
    info = site / f"quiet_{number}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: quiet-{number}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[playground]\nquiet{number} = quiet_{number}\n", encoding="utf-8")


def seconds(command: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plugins", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.plugins):
            install(Path(folder), number)
        bare = dict(os.environ)
        several = {**bare, "PYTHONPATH": os.pathsep.join(filter(None, [folder, bare.get("PYTHONPATH")]))}
        listing = [sys.executable, "-m", "playground", "plugins"]
        commands = {
            "an idle interpreter": ([sys.executable, "-c", "pass"], bare),
            "playground plugins": (listing, bare),
            f"playground plugins, {arguments.plugins} more": (listing, several),
        }
        rounds = [{name: seconds(*what) for name, what in commands.items()} for _ in range(arguments.rounds)]
    for name in commands:
        times = [one[name] for one in rounds]
        print(f"{name}: median {statistics.median(times):.3f} s, most {max(times):.3f} s")
    print(f"goal of the last: {GOAL} s")


if __name__ == "__main__":
    main()
