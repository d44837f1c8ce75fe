"""The shapes that go through a model: what each replica saw and gave, and what the whole looks like from outside."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from playground.engine.assembly import Parts
    from playground.engine.batches import Shard

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Passage:
    """One forward pass of a replica."""

    replica: int
    device: str
    input: Shape
    output: Shape

    def __str__(self) -> str:
        return f"replica {self.replica} on {self.device}: {_arrow(self.input, self.output)}"


@dataclass(frozen=True)
class BatchShapes:
    """The first global batch of its size.

    step: its number, from 1 on. idle: replicas that got no rows. input: the whole batch's shape. output: that of all
    replicas' outputs together; None where the step failed, or the backend tells of no forward pass.
    """

    step: int
    passages: tuple[Passage, ...]
    idle: tuple[int, ...]
    input: Shape
    output: Shape | None

    def lines(self) -> list[str]:
        """A heading, a line for each replica's passage, and one for the whole."""
        return [
            f"step {self.step}, a batch of {self.input[0]}:",
            *(f"  {passage}" for passage in self.passages),
            *(f"  replica {replica}: no rows" for replica in self.idle),
            f"  outside: {_arrow(self.input, self.output)}",
        ]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Shapes:
    """Listens to the first global batch of each size."""

    batches: list[BatchShapes] = field(default_factory=list)

    def new(self, count: int) -> bool:
        """Whether no batch of so many rows has been listened to."""
        return all(batch.input[0] != count for batch in self.batches)

    @contextlib.contextmanager
    def watching(self, parts: Parts, step: int, shards: Sequence[Shard]) -> Iterator[None]:
        """Listen while a step is taken; what was heard is kept also where the step fails."""
        passages: list[Passage] = []
        ended = False

        def seen(replica: int, device: torch.device, given: Shape, gave: Shape) -> None:
            # From the threads of all replicas; appending to a list needs no lock.
            passages.append(Passage(replica, str(device), tuple(given), tuple(gave)))

        try:
            with parts.backend.watched(seen):
                yield
            ended = True
        finally:
            inputs = [inputs.shape for shard in shards for inputs, _ in shard]
            rows = sum(shape[0] for shape in inputs)
            once = _first_round(passages, rows)
            heard = {passage.replica for passage in once}
            # A replica that was not heard of in a step that failed may be the one that failed.
            whole = ended and bool(once)
            idle = [replica for replica in range(len(parts.place.devices)) if whole and replica not in heard]
            given = sum(passage.output[0] for passage in once if passage.output)
            output = (given, *once[-1].output[1:]) if whole else None
            self.batches.append(BatchShapes(step, tuple(once), tuple(idle), (rows, *inputs[0][1:]), output))


def _first_round(passages: list[Passage], rows: int) -> list[Passage]:
    """Without what was sent through again by an optimizer that evaluates more than once in a step.

    Each evaluation sends the rows of the batch, and the same passages, through every replica.
    """
    rounds = max(1, sum(passage.input[0] for passage in passages if passage.input) // max(1, rows))
    found: list[Passage] = []
    for replica in sorted({passage.replica for passage in passages}):
        own = [passage for passage in passages if passage.replica == replica]
        found += own[: -(-len(own) // rounds)]
    return found


def _arrow(given: Shape, gave: Shape | None) -> str:
    return f"input {list(given)} → output {'?' if gave is None else list(gave)}"
