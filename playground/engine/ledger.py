"""Where the time of a training went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PHASES = ("feed", "compute", "communicate", "update")
"""Making the batch; forward, loss and backward; what goes between replicas; the optimizers."""


@dataclass
class Ledger:
    """What some steps of a training took.

    steps: how many. samples: their rows. moved: bytes that went between replicas, None where nobody counts them.
    seconds: the clock's, evaluation left out. phases: the part of them that each phase took; of replicas that work at
    the same time the slowest counts.
    """

    steps: int = 0
    samples: int = 0
    moved: int | None = 0
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    def feed(self, seconds: float) -> None:
        """A batch has been made."""
        self.phases["feed"] += seconds

    def step(self, samples: int, moved: int | None, phases: Mapping[str, float]) -> None:
        """A step has been taken."""
        self.steps += 1
        self.samples += samples
        self.moved = None if moved is None or self.moved is None else self.moved + moved
        for phase, seconds in phases.items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    @property
    def ms_per_step(self) -> dict[str, float]:
        """Milliseconds of a step by phase. `other` is what no phase accounts for: the loop itself and, on accelerators,
        the waiting for work that has been handed over. Empty where no step was taken."""
        if not self.steps:
            return {}
        parts = {**self.phases, "other": self.seconds - sum(self.phases.values())}
        return {phase: 1e3 * seconds / self.steps for phase, seconds in parts.items()}

    @property
    def bytes_per_step(self) -> float | None:
        return self.moved / self.steps if self.steps and self.moved is not None else None

    @property
    def samples_per_sec(self) -> float | None:
        return self.samples / self.seconds if self.seconds else None
