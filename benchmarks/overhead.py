"""The engine's time per step on airfoil, on one thread, against a bare loop that does the same.

Both permute, cut, gather, run forward, loss, backward and update, and evaluate the whole data every 200 samples. They
take turns, one epoch each, so that a change of the machine's speed meets both alike. What is counted is the processor's
time, which on one thread is the clock's less what other programs take.

    python -m benchmarks.overhead [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from playground import Experiment, Registry
from playground.engine.assembly import assembled
from playground.engine.training import Training

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIMIZERS = ("sgd", "momentum", "adagrad", "rmsprop", "adam")
BATCH, EVERY, GOAL = 10, 200, 1.10


def bare_epochs(experiment: Experiment, epochs: int) -> Iterator[float]:
    """The processor seconds that each epoch of the loop takes that anyone would write by hand."""
    data = experiment.data.build()
    inputs, targets = data.train
    model = experiment.model.build(data.inputs, data.outputs)
    optimizer = experiment.optimizer.build(model.parameters())
    history = []
    for epoch in range(epochs):
        started = time.process_time()
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
        seen = 0
        for rows in order.split(BATCH):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            loss = functional.mse_loss(model(inputs.index_select(0, rows)), targets.index_select(0, rows)) / 2
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            seen += len(rows)
            if seen % EVERY == 0:
                with torch.no_grad():
                    history.append(float(functional.mse_loss(model(inputs), targets) / 2))
        yield time.process_time() - started


def engine_epochs(experiment: Experiment) -> Iterator[float]:
    """The processor seconds that each epoch of the engine takes, evaluation and records included."""
    with assembled(experiment) as parts:
        records = Training(parts, experiment).records()
        next(records)
        started, epoch = time.process_time(), 1
        history = []
        for record in records:
            history.append(record)
            # The last evaluation of an epoch falls on its last step, so records mark the epochs' ends.
            if record["epoch"] == epoch:
                yield time.process_time() - started
                started, epoch = time.process_time(), epoch + 1


def measure(optimizer: str, rounds: int) -> dict[str, float | str]:
    """Medians of an epoch's seconds for both, and the median of the ratio pair by pair."""
    words = {"data": "airfoil", "optimizer": optimizer, "epochs": rounds + 1, "eval_every": EVERY, "batch_size": BATCH}
    # 1400 rows are a whole number of evaluations.
    experiment = Experiment.of(Registry(), words | {"data": "airfoil:rows=1400", "backend": "single:devices=cpu"})
    pairs = list(zip(engine_epochs(experiment), bare_epochs(experiment, rounds + 1), strict=True))[1:]
    steps = 1400 / BATCH
    ratios = [engine / bare for engine, bare in pairs]
    return {
        "optimizer": optimizer,
        "engine_us": statistics.median(engine for engine, _ in pairs) / steps * 1e6,
        "bare_us": statistics.median(bare for _, bare in pairs) / steps * 1e6,
        "ratio": statistics.median(ratios),
        "ratio_low": statistics.quantiles(ratios, n=4)[0],
        "ratio_high": statistics.quantiles(ratios, n=4)[2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="pairs of epochs for each optimizer")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(optimizer, arguments.rounds) for optimizer in OPTIMIZERS]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'optimizer':10} {'engine µs':>10} {'bare µs':>10} {'ratio':>7}  middle half   (goal: at most {GOAL})")
    for row in rows:
        print(
            f"{row['optimizer']:10} {row['engine_us']:10.1f} {row['bare_us']:10.1f} {row['ratio']:7.3f}  "
            f"{row['ratio_low']:.3f}-{row['ratio_high']:.3f}"
        )


if __name__ == "__main__":
    main()
