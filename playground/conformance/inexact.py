"""What a parallel backend promises that does not claim to equal one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playground.components import Optimizer
from playground.conformance.checks import Checks, NotApplicableError, Subject, require
from playground.conformance.problems import ROWS, choose, experiment, feed, matrix, reference, train
from playground.conformance.replicas import COUNTS, backends, inexact, same
from playground.engine.assembly import assembled
from playground.engine.training import Training

if TYPE_CHECKING:
    from playground.experiment import Choice

CHECKS = Checks()


@CHECKS.add
def converges(subject: Subject) -> str:
    """In 200 steps a backend that is not exact lowers the loss of a convex problem by 95 % or more of what one device
    lowers it by."""
    inexact(subject)
    said = []
    for count, backend in backends(subject, *COUNTS):
        first, last = _curve(backend)
        _, best = _curve(reference())
        share = (last - best) / (first - best)
        said_so = f"the loss goes from {first:.4g} to {last:.4g}; one device's to {best:.4g}"
        require(share < 0.05, f"on {count} replicas {said_so}")
        said.append(f"{count}: {first:.3g} to {last:.3g}")
    return "; ".join(said)


def _curve(backend: Choice) -> tuple[float, float]:
    asked = experiment(backend=backend, model=matrix, steps=200, batch_size=ROWS)
    with assembled(asked) as parts:
        records = [float(record["train_loss"] or 0.0) for record in Training(parts, asked).records()]
    return records[0], records[-1]


@CHECKS.add
def equals_one_device_on_one_replica(subject: Subject) -> None:
    """A backend that is not exact still is on a single replica, where there is nobody to differ from."""
    inexact(subject)
    for _, backend in backends(subject, 1):
        same(train(experiment(backend=backend)), train(experiment(backend=reference())), "on one replica")


@CHECKS.add
def replicas_come_to_agree(subject: Subject) -> str:
    """A backend that is not exact brings its replicas together: at a learning rate of 0, 200 steps leave at most a
    thousandth of their differences."""
    inexact(subject)
    said = []
    for count, backend in backends(subject, 2, 3):
        with assembled(experiment(backend=backend, optimizer=choose(_STILL))) as parts:
            replicas = getattr(parts.backend, "replicas", None)
            if not replicas:
                raise NotApplicableError("its replicas cannot be looked at")
            for shards, rows in feed(parts, 0, 3):
                parts.backend.step(shards, rows, parts.objective)
            before = _spread(replicas)
            parts.backend.scale_lr(0.0)
            for shards, rows in feed(parts, 0, 200):
                parts.backend.step(shards, rows, parts.objective)
            after = _spread(replicas)
        require(
            after <= max(1e-3 * before, 1e-12), f"on {count} replicas differences go from {before:.3g} to {after:.3g}"
        )
        said.append(f"{count}: {before:.2g} to {after:.2g}")
    return "; ".join(said)


_STILL = Optimizer("still", "torch.optim:SGD", defaults={"lr": 0.05})


def _spread(replicas: Any) -> float:
    """The largest difference of a parameter between the first replica and another."""
    first, *others = ([one.detach() for one in replica.model.parameters()] for replica in replicas)
    return max(float((a - b).abs().max()) for other in others for a, b in zip(first, other, strict=True))
