"""The backend `manual`, and its two reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from playground import Concurrency, Devices, ReplicaBackend

if TYPE_CHECKING:
    from torch import Tensor


class Manual(ReplicaBackend):
    """A full copy of the model and an optimizer on every device.

    The global batch is cut, every replica differentiates its shard, the gradients are added up, the sum is handed back
    to all, and each optimizer takes its step.
    """

    def __init__(
        self,
        devices: Devices = "auto",
        reduce: Literal["star", "ring"] = "star",
        concurrency: Concurrency = "auto",
    ) -> None:
        """Keep what was asked for; nothing is started yet.

        Args:
            devices: a number of replicas, `auto`, or devices such as `cpu,cpu`; `auto` is every GPU, or two replicas
                on the CPU.
            reduce: `star` adds all onto the first replica and copies the sum back; `ring` passes pieces around.
            concurrency: how replicas on the CPU run: `threads`, in `turns`, or `auto` (threads where a replica's part
                of a step takes long enough to be worth one); the numbers are the same.
        """
        super().__init__(devices, concurrency)
        self._reduction = {"star": star, "ring": ring}[reduce]

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return self._reduction(gradients)


def star(gradients: list[list[Tensor]]) -> int:
    """Add every replica's gradients onto the first's, then copy the sum back; gives the bytes moved.

    2 (k − 1) n bytes for k replicas and n bytes of gradient, all through the first replica (*Dive into Deep Learning*,
    section 13.5, `allreduce`).
    """
    first, *others = gradients
    moved = 0
    for other in others:
        for total, gradient in zip(first, other, strict=True):
            total.add_(gradient.to(total.device))
            moved += _bytes(gradient)
    for other in others:
        for total, gradient in zip(first, other, strict=True):
            gradient.copy_(total)
            moved += _bytes(total)
    return moved


def ring(gradients: list[list[Tensor]]) -> int:
    """Pass pieces of the gradient around a ring of replicas; gives the bytes moved.

    Each replica sends 2 n (k − 1) / k bytes, however many there are (Patarasuk & Yuan 2009, *Bandwidth optimal
    all-reduce algorithms for clusters of workstations*, J. Parallel Distrib. Comput. 69(2)).
    """
    k = len(gradients)
    if not gradients[0]:
        return 0
    flat = [torch.cat([gradient.reshape(-1) for gradient in own]) for own in gradients]
    # A piece is a view, so what is added to it or copied onto it changes the flat gradient.
    pieces = [list(one.tensor_split(k)) for one in flat]
    moved = 0
    # Reduce-scatter: after k − 1 rounds replica r has the whole sum of piece r + 1.
    for hop in range(k - 1):
        for sender in range(k):
            receiver, piece = (sender + 1) % k, (sender - hop) % k
            travelling = pieces[sender][piece]
            pieces[receiver][piece].add_(travelling.to(flat[receiver].device))
            moved += _bytes(travelling)
    # All-gather: the whole sums travel on until everyone has them all.
    for hop in range(k - 1):
        for sender in range(k):
            receiver, piece = (sender + 1) % k, (sender + 1 - hop) % k
            travelling = pieces[sender][piece]
            pieces[receiver][piece].copy_(travelling)
            moved += _bytes(travelling)
    for own, one in zip(gradients, flat, strict=True):
        sizes = [gradient.numel() for gradient in own]
        for gradient, part in zip(own, torch.split(one, sizes), strict=True):
            gradient.copy_(part.view_as(gradient))
    return moved


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
