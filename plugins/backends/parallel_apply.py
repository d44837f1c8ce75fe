"""The algorithm of torch.nn.DataParallel on CPU replicas."""

from __future__ import annotations

import contextlib
import copy
import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from playground import PlaygroundError, ShardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playground import Team


class ParallelApply:
    """A model as a function of its inputs, computed by replicas of it.

    Scatter: the rows are cut as `torch.chunk` cuts them, so there may be fewer parts than replicas. Replicate: every
    replica takes the parameters and buffers of the first. Parallel apply: each computes the outputs of its part.
    Gather: the outputs are put together on the first. In the backward pass the gradients of the outputs are scattered,
    each replica computes those of its parameters, and they add up on the first.

    torch's does the same with streams in the place of threads. Its backward pass on a CPU would be one thread's work,
    which is why the replicas' backward passes are started by hand here.

    replicas: the first is the model itself. moved: bytes of parameters, buffers and gradients that went between
    replicas; seconds: that moving took; both are the caller's to reset.
    """

    def __init__(self, model: nn.Module, workers: Team, count: int) -> None:
        self.replicas = [model, *(copy.deepcopy(model) for _ in range(count - 1))]
        self.moved = 0
        self.seconds = 0.0
        self._workers = workers
        self._modules = [list(replica.modules()) for replica in self.replicas]
        self._parameters = [list(replica.parameters()) for replica in self.replicas]
        self._trained = [[one for one in own if one.requires_grad] for own in self._parameters]

    def __call__(self, inputs: Tensor) -> Tensor:
        """The outputs for inputs of shape (N, …), N from 1 on."""
        if len(self.replicas) == 1:
            return self.replicas[0](inputs)  # type: ignore[no-any-return]
        if not torch.is_grad_enabled():
            return torch.cat(self.forward(inputs))
        outputs: Tensor = _Differentiable.apply(self, inputs, *self._trained[0])  # type: ignore[no-untyped-call]
        return outputs

    def forward(self, inputs: Tensor) -> list[Tensor]:
        """Scatter, replicate, apply in parallel: each part's outputs, differentiable where gradients are on."""
        parts = inputs.chunk(len(self.replicas))
        self._replicate(len(parts))
        differentiable = torch.is_grad_enabled()

        def apply(replica: int) -> Tensor | None:
            if replica >= len(parts):
                return None
            # Whether gradients are on is each thread's own.
            with torch.set_grad_enabled(differentiable):
                return self._apply(replica, parts[replica])

        outputs = self._workers.differentiate(apply) if differentiable else self._workers.each(apply)
        return [one for one in outputs if one is not None]

    def backward(self, outputs: list[Tensor], gradients: Tensor) -> list[Tensor | None]:
        """The gradients of the first's parameters, from the outputs of each part and the gradients of all outputs.

        None for a parameter that no replica has used.
        """
        parts = torch.split(gradients, [len(one) for one in outputs])

        def differentiate(replica: int) -> list[Tensor | None]:
            trained = self._trained[replica]
            if replica >= len(parts) or not outputs[replica].requires_grad:
                return [None] * len(trained)
            with self._named(replica, outputs[replica]):
                return list(torch.autograd.grad(outputs[replica], trained, parts[replica], allow_unused=True))

        return self._add_up(self._workers.each(differentiate))

    def _apply(self, replica: int, part: Tensor) -> Tensor:
        with self._named(replica, part):
            outputs: Tensor = self.replicas[replica](part)
            if outputs.shape[:1] != part.shape[:1]:
                raise ValueError(f"outputs of shape {list(outputs.shape)} have no row for each of the inputs")
        return outputs

    @contextlib.contextmanager
    def _named(self, replica: int, rows: Tensor) -> Iterator[None]:
        """An error names the replica that it comes from, and how many rows that had."""
        try:
            yield
        except PlaygroundError:
            raise
        except Exception as error:
            raise ShardError(replica, rows.device, self.replicas[replica], rows, error) from error

    @torch.no_grad()
    def _replicate(self, used: int) -> None:
        started = time.perf_counter()
        for modules, parameters in zip(self._modules[1:used], self._parameters[1:used], strict=True):
            for module, first in zip(modules, self._modules[0], strict=True):
                module.training = first.training
                # A forward pass may have put another tensor in a buffer's place.
                for name, buffer in first.named_buffers(recurse=False):
                    self._copy_buffer(module, name, buffer)
            for mine, parameter in zip(parameters, self._parameters[0], strict=True):
                mine.copy_(parameter)
                self.moved += parameter.numel() * parameter.element_size()
        self.seconds += time.perf_counter() - started

    def _copy_buffer(self, module: nn.Module, name: str, buffer: Tensor) -> None:
        mine = getattr(module, name)
        if mine is None or (mine.shape, mine.dtype) != (buffer.shape, buffer.dtype):
            setattr(module, name, buffer.clone())
        else:
            mine.copy_(buffer)
        self.moved += buffer.numel() * buffer.element_size()

    def _add_up(self, gradients: list[list[Tensor | None]]) -> list[Tensor | None]:
        started = time.perf_counter()
        totals, *others = gradients
        for other in others:
            for index, gradient in enumerate(other):
                if gradient is not None:
                    total = totals[index]
                    # Not in place: autograd may have given one tensor, or one number expanded, as several gradients.
                    totals[index] = gradient if total is None else total + gradient
                    self.moved += gradient.numel() * gradient.element_size()
        self.seconds += time.perf_counter() - started
        return totals


class _Differentiable(torch.autograd.Function):
    """The whole as one operation of the first's parameters."""

    @staticmethod
    def forward(ctx: Any, parallel: ParallelApply, inputs: Tensor, *parameters: Tensor) -> Tensor:
        with torch.enable_grad():
            outputs = parallel.forward(inputs)
        ctx.parallel, ctx.outputs = parallel, outputs
        gathered = torch.cat([one.detach() for one in outputs])
        if not any(one.requires_grad for one in outputs):
            # So that it fails as it does without replicas, instead of training nothing.
            ctx.mark_non_differentiable(gathered)
        return gathered

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> Any:
        found = ctx.parallel.backward(ctx.outputs, gradients)
        # The graph of each replica is let go as soon as it has been used.
        del ctx.outputs
        return None, None, *found
