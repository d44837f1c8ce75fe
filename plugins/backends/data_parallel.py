"""The backend `data-parallel`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from playground import Concurrency, Devices, ReplicaBackend, RequestError, Team

from .parallel_apply import ParallelApply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playground import Objective, Place, Plan, Recipe, Request, Seen, Shard, StepResult


class DataParallel(ReplicaBackend):
    """One model and one optimizer on the first device, whose forward pass is spread over all.

    On accelerators that is `torch.nn.DataParallel` itself. On the CPU, where torch's calls the model as it is, it is
    the same algorithm on CPU replicas (`ParallelApply`). In both, outputs are gathered on the first device, and the
    objective sums the loss over the rows of the whole batch there.
    """

    def __init__(self, devices: Devices = "auto", concurrency: Concurrency = "auto") -> None:
        """Keep what was asked for; nothing is started yet.

        Args:
            devices: a number of replicas, `auto`, or devices such as `cpu,cpu` or `cuda:0,cuda:2`; the first one has
                the model and the optimizer. `auto` is every accelerator, or two replicas on the CPU.
            concurrency: how replicas on the CPU run: `threads`, in `turns`, or `auto` (threads where a replica's part
                of a step takes long enough to be worth one); the numbers are the same.
        """
        super().__init__(devices, concurrency)
        self._workers: Team | None = None

    def plan(self, request: Request) -> Plan:
        plan = super().plan(request)
        names = [str(device) for device in plan.devices]
        if len({device.type for device in plan.devices}) > 1:
            raise RequestError(
                f"data-parallel takes devices of one kind, not {', '.join(names)}; --backend manual takes any"
            )
        if plan.devices[0].type == "cpu":
            if len(plan.devices) == 1:
                return plan
            note = (
                "torch.nn.DataParallel does nothing without accelerators: this is its algorithm (scatter, replicate, "
                "parallel apply, gather) on CPU replicas"
            )
            return replace(plan, notes=(*plan.notes, note))
        if len(set(names)) < len(names):
            raise RequestError(f"torch.nn.DataParallel takes a device once, not {', '.join(names)}")
        return plan

    def setup(self, plan: Plan, place: Place) -> None:
        self._devices = place.devices
        super().setup(plan, replace(place, devices=place.devices[:1]))

    def prepare(self, recipe: Recipe) -> None:
        super().prepare(recipe)
        (self._first,) = self.replicas
        # On accelerators it only starts a stream of random numbers on each.
        self._workers = Team(self._devices, recipe.seed, self.concurrency)
        self._parallel: ParallelApply | nn.DataParallel[Any]
        if self._devices[0].type == "cpu":
            self._parallel = ParallelApply(self._first.model, self._workers, len(self._devices))
        else:
            self._parallel = nn.DataParallel(self._first.model, device_ids=list(self._devices))
        self._first.forward = self._parallel

    @property
    def workers(self) -> Team:
        if self._workers is None:
            raise RuntimeError("the backend has not been prepared")
        return self._workers

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return 0

    def step(self, shards: Sequence[Shard], count: int, objective: Objective) -> StepResult:
        parallel = self._parallel
        if not isinstance(parallel, ParallelApply):
            # What torch's sends about in its forward and backward pass, it does not tell.
            return super().step(shards, count, objective)._replace(moved=None)
        parallel.moved, parallel.seconds = 0, 0.0
        result = super().step(shards, count, objective)
        seconds = dict(result.seconds)
        # Part of the forward and the backward pass here.
        seconds["compute"] -= parallel.seconds
        seconds["communicate"] += parallel.seconds
        return result._replace(moved=parallel.moved, seconds=seconds)

    @contextlib.contextmanager
    def watched(self, seen: Seen) -> Iterator[None]:
        numbers = {device: number for number, device in enumerate(self._devices)}

        def tell(model: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
            device = inputs[0].device
            number = copies.index(model) if len(copies) > 1 else numbers[device]
            seen(number, device, tuple(inputs[0].shape), tuple(outputs.shape))

        # torch makes its replicas anew in each forward pass, and they take the hooks of the first over.
        copies = self._parallel.replicas if isinstance(self._parallel, ParallelApply) else [self._first.model]
        with contextlib.ExitStack() as stack:
            for one in copies:
                stack.callback(one.register_forward_hook(tell).remove)
            yield

    def synchronize(self) -> None:
        for device in self._devices:
            if device.type != "cpu":
                torch.accelerator.synchronize(device)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        # The model's random numbers are drawn by the workers.
        state["streams"] = {**self.workers.streams(), "optimizer": state["streams"]["optimizer"]}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.workers.restore(state["streams"])

    def close(self, error: BaseException | None = None) -> None:
        if self._workers is not None:
            self._workers.close()
        super().close(error)
