"""The share of a LeNet step, on the real Fashion-MNIST in batches of 256, that making the batch takes.

Each step is timed in two parts, feeding (gather, conversion) and the rest, so that a change of the machine's speed
meets both alike.

    python -m benchmarks.feeding [--steps N] [--threads N] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from playground import Experiment, Registry
from playground.engine.assembly import assembled

BATCH, GOAL, WARM_UP = 256, 0.05, 3


def measure(steps: int) -> dict[str, float]:
    """Medians over the steps: milliseconds of feeding and of the rest, and the share of feeding step by step."""
    words = {"data": "fashion-mnist", "model": "lenet", "backend": "single:devices=cpu", "batch_size": BATCH}
    with assembled(Experiment.of(Registry(), words)) as parts:
        order = parts.order.epoch(0)[: steps + WARM_UP]
        batches = parts.feeds["train"](map(parts.backend.shard, order))
        timed = []
        for rows in order:
            started = time.perf_counter()
            shards = next(batches)
            fed = time.perf_counter()
            parts.backend.step(shards, len(rows), parts.objective)
            timed.append((fed - started, time.perf_counter() - fed))
    timed = timed[WARM_UP:]
    shares = [feed / (feed + rest) for feed, rest in timed]
    low, _, high = statistics.quantiles(shares, n=4)
    return {
        "feed_ms": 1e3 * statistics.median(feed for feed, _ in timed),
        "rest_ms": 1e3 * statistics.median(rest for _, rest in timed),
        "share": statistics.median(shares),
        "share_low": low,
        "share_high": high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60, help="steps that are timed")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = measure(arguments.steps)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"feeding {found['feed_ms']:.3f} ms, the rest of the step {found['rest_ms']:.1f} ms")
    print(
        f"share of feeding {found['share']:.2%}, middle half {found['share_low']:.2%}-{found['share_high']:.2%} "
        f"(goal: at most {GOAL:.0%})"
    )


if __name__ == "__main__":
    main()
