"""ReplicaBackend: all of the contract for full copies of a model in one process, but for the reduction."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import UninitializedParameter
from torch.nn.modules.batchnorm import _BatchNorm

from playground.engine.backend import ParallelBackend, Place, Plan, Recipe, Request, StepResult
from playground.engine.devices import Devices, resolve
from playground.engine.state import load_optimizer_state, on_cpu, optimizer_state
from playground.engine.team import Concurrency, Team
from playground.errors import PlaygroundError, RequestError, brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

    from playground.engine.backend import Seen
    from playground.engine.batches import Shard
    from playground.engine.objective import Objective


class ShardError(PlaygroundError):
    """A replica failed on its shard; the cause is chained."""

    def __init__(
        self, replica: int, device: torch.device, model: nn.Module, inputs: Tensor, cause: BaseException
    ) -> None:
        rows = inputs.shape[0]
        message = f"replica {replica} on {device} failed on its shard of {rows} row{'s' * (rows != 1)}: {brief(cause)}"
        if rows == 1 and any(isinstance(module, _BatchNorm) for module in model.modules()):
            message += (
                "; batch normalisation has nothing to compare a single row with: choose --batch-size and --devices so "
                "that every shard, those of an epoch's last batch too, has two rows or more"
            )
        super().__init__(message)


class Replica:
    """A copy of the model on a device, and its optimizer.

    forward: what gives the outputs for inputs; the model itself, unless a backend spreads that over further devices.
    """

    def __init__(self, number: int, model: nn.Module, device: torch.device, recipe: Recipe) -> None:
        self.number = number
        self.device = device
        self.model = model.to(device)
        self.forward: Callable[[Tensor], Tensor] = self.model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = recipe.optimizer(self.model.parameters())
        self.initial_lrs = [group.get("lr") for group in self.optimizer.param_groups]
        self._divisors: dict[int, Tensor] = {}

    def differentiate(self, shard: Shard, count: int, objective: Objective) -> Tensor:
        """Set the gradients of (the shard's summed loss ÷ count); gives the summed loss, of shape ()."""
        for parameter in self.parameters:
            parameter.grad = None
        total: Tensor | None = None
        for inputs, targets in shard:
            if not inputs.shape[0]:
                continue
            try:
                loss = objective.loss(self.forward(inputs.to(self.device)), targets.to(self.device))
                loss.backward(self._share_of_one(count, loss))  # type: ignore[no-untyped-call]
            except PlaygroundError:
                raise
            except Exception as error:
                raise ShardError(self.number, self.device, self.model, inputs, error) from error
            total = loss.detach() if total is None else total + loss.detach()
        return torch.zeros((), device=self.device) if total is None else total

    @torch.no_grad()
    def evaluate(self, shard: Shard, objective: Objective) -> dict[str, Tensor]:
        """The loss and metrics summed over the shard's rows; empty for an empty shard."""
        sums: dict[str, Tensor] = {}
        for inputs, targets in shard:
            if not inputs.shape[0]:
                continue
            targets = targets.to(self.device)
            outputs = self.forward(inputs.to(self.device))
            found = {"loss": objective.loss(outputs, targets), **objective.metrics(outputs, targets)}
            for name, value in found.items():
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def fingerprint(self) -> str:
        """A digest of the parameters."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    def _share_of_one(self, count: int, loss: Tensor) -> Tensor:
        """1 ÷ count as the gradient to start from: spares a division forward and one backward in every step."""
        share = self._divisors.get(count)
        if share is None or share.dtype != loss.dtype:
            share = self._divisors[count] = torch.full_like(loss, 1 / count, requires_grad=False)
        return share


class ReplicaBackend(ParallelBackend):
    """Full copies of the model on devices of this process, each with an optimizer of its own.

    A subclass gives one method, `reduce`.
    """

    cpu_replicas = 2
    """How many replicas `auto` makes on the CPU where there is no accelerator."""

    replicas: list[Replica]
    # What holds where a subclass's `__init__` does not call this one.
    devices: Devices = "auto"
    concurrency: Concurrency = "auto"
    _mixes: bool = False
    _team: Team | None = None
    _threads_before: int | None = None

    def __init__(self, devices: Devices = "auto", concurrency: Concurrency = "auto") -> None:
        """Keep what was asked for; nothing is started yet.

        Args:
            devices: a number of replicas, `auto`, or devices such as `cpu,cpu` or `cuda:0,cuda:2`; `auto` is every
                accelerator, or two replicas on the CPU.
            concurrency: how replicas on the CPU run: `threads`, in `turns`, or `auto` (threads where a replica's part
                of a step takes long enough to be worth one); the numbers are the same.
        """
        self.devices = devices
        self.concurrency = concurrency
        self.replicas = []

    @abstractmethod
    def reduce(self, gradients: list[list[Tensor]]) -> int:
        """Make the gradients of all replicas one, in place; give the bytes that went between replicas.

        gradients: for each replica the gradients of its parameters, in the order of the parameters; parameters that
            have no gradient on any replica are left out. A replica's gradients are those of the loss summed over its
            own rows ÷ the rows of the global batch. An exact backend leaves their sum on every replica.
        """

    def mix(self, parameters: list[list[Tensor]]) -> int:
        """After the update, bring the replicas' parameters together, in place; give the bytes that went between them.

        For backends that average models (local SGD, gossip). An exact one has nothing to do: its replicas are equal.
        """
        return 0

    def plan(self, request: Request) -> Plan:
        devices = resolve(self.devices, self.cpu_replicas)
        on_cpu = sum(device.type == "cpu" for device in devices)
        return Plan(devices, threads=max(1, request.threads // max(1, on_cpu)))

    def setup(self, plan: Plan, place: Place) -> None:
        self._place = place
        self._threads_before = torch.get_num_threads()
        # Threads that start later take the number over, so it is set here, before there are any.
        torch.set_num_threads(plan.threads)

    def prepare(self, recipe: Recipe) -> None:
        self._recipe = recipe
        model = recipe.model()
        if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
            raise RequestError("the model has lazy modules, whose weights are not drawn yet; give them their sizes")
        # Moving a model to the device that it is on gives the same tensors again, so the copies are made first.
        copies = [model, *(copy.deepcopy(model) for _ in self._place.devices[1:])]
        places = zip(copies, self._place.devices, strict=True)
        self.replicas = [Replica(number, *place, recipe) for number, place in enumerate(places)]
        # Most backends do not mix, and asking them in every step would cost more than it looks.
        self._mixes = len(self.replicas) > 1 and type(self).mix is not ReplicaBackend.mix
        self._team = Team(self._place.devices, recipe.seed, self.concurrency)

    @property
    def team(self) -> Team:
        if self._team is None:
            raise RuntimeError("the backend has not been prepared")
        return self._team

    def shard(self, rows: Tensor) -> list[Tensor]:
        if len(self.replicas) == 1:
            return [rows]
        return list(rows.tensor_split(len(self.replicas)))

    def step(self, shards: Sequence[Shard], count: int, objective: Objective) -> StepResult:
        evaluations: list[StepResult] = []
        started = time.perf_counter()

        def evaluate() -> Tensor:
            evaluations.append(self._gradient(shards, count, objective))
            return evaluations[-1].loss / count

        if self._recipe.closure:
            self.team.update_together([replica.optimizer for replica in self.replicas], evaluate)
            if not evaluations:
                raise RuntimeError("the optimizer did not call its closure; is `closure=True` right for it?")
        else:
            evaluations.append(self._gradient(shards, count, objective))
            self.team.update(lambda replica: self.replicas[replica].optimizer.step())
        updated = time.perf_counter()
        moved = sum(evaluation.moved or 0 for evaluation in evaluations)
        seconds = {
            phase: sum(evaluation.seconds[phase] for evaluation in evaluations) for phase in ("compute", "communicate")
        }
        # What evaluations within the update took is not the update's.
        seconds["update"] = updated - started - seconds["compute"] - seconds["communicate"]
        if self._mixes:
            with torch.no_grad():
                moved += self.mix([list[Tensor](replica.parameters) for replica in self.replicas])
            seconds["communicate"] += time.perf_counter() - updated
        return StepResult(evaluations[0].loss, moved, seconds)

    @contextlib.contextmanager
    def watched(self, seen: Seen) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for replica in self.replicas:
                tell = functools.partial(told, seen, replica.number, replica.device)
                stack.callback(replica.model.register_forward_hook(tell).remove)
            yield

    def evaluate(self, shards: Sequence[Shard], objective: Objective) -> dict[str, float]:
        totals: dict[str, float] = {}
        with self._evaluation():
            for sums in self.team.each(lambda replica: self.replicas[replica].evaluate(shards[replica], objective)):
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
        return totals

    @property
    def lr(self) -> float | None:
        lr = self.replicas[0].optimizer.param_groups[0].get("lr")
        return None if lr is None else float(lr)

    def scale_lr(self, factor: float) -> None:
        for replica in self.replicas:
            for group, initial in zip(replica.optimizer.param_groups, replica.initial_lrs, strict=True):
                if initial is not None:
                    group["lr"] = initial * factor

    def synchronize(self) -> None:
        for device in set(self._place.devices):
            if device.type != "cpu":
                torch.accelerator.synchronize(device)

    def state_dict(self) -> dict[str, Any]:
        first = self.replicas[0]
        return {
            "model": on_cpu(dict(first.model.state_dict())),
            "optimizer": optimizer_state(first.optimizer, first.model),
            "streams": on_cpu(self.team.streams()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for replica in self.replicas:
            replica.model.load_state_dict(state["model"], strict=True)
            # torch keeps a reference to what it loads, and replicas must not share a state.
            load_optimizer_state(replica.optimizer, replica.model, copy.deepcopy(state["optimizer"]))
        self.team.restore(state["streams"])

    def fingerprint(self) -> list[str]:
        return [replica.fingerprint() for replica in self.replicas]

    def close(self, error: BaseException | None = None) -> None:
        if self._team is not None:
            self._team.close()
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)

    def _gradient(self, shards: Sequence[Shard], count: int, objective: Objective) -> StepResult:
        """Put the global batch's gradient on every replica; gives the summed loss, and what it took."""
        started = time.perf_counter()
        losses = self.team.differentiate(
            lambda number: self.replicas[number].differentiate(shards[number], count, objective)
        )
        computed = time.perf_counter()
        loss, moved = losses[0], 0
        if len(self.replicas) > 1:
            for other in losses[1:]:
                loss = loss + other.to(loss.device)
            moved = self.reduce(self._gradients())
        reduced = time.perf_counter()
        return StepResult(loss, moved, {"compute": computed - started, "communicate": reduced - computed})

    def _gradients(self) -> list[list[Tensor]]:
        """Each replica's gradients; zeros where it has none but another replica does."""
        columns = []
        for parameters in zip(*(replica.parameters for replica in self.replicas), strict=True):
            if any(parameter.grad is not None for parameter in parameters):
                for parameter in parameters:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                columns.append([parameter.grad for parameter in parameters])
        return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in self.replicas]

    @contextlib.contextmanager
    def _evaluation(self) -> Iterator[None]:
        """Every replica in eval mode with the first one's buffers; afterwards each as it was, module by module."""
        modes = [(module, module.training) for replica in self.replicas for module in replica.model.modules()]
        every = [list(replica.model.buffers()) for replica in self.replicas]
        kept = [[buffer.clone() for buffer in buffers] for buffers in every]
        with torch.no_grad():
            for buffers in every[1:]:
                for mine, its in zip(buffers, every[0], strict=True):
                    mine.copy_(its)
        for replica in self.replicas:
            replica.model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            with torch.no_grad():
                for buffers, values in zip(every, kept, strict=True):
                    for buffer, value in zip(buffers, values, strict=True):
                        buffer.copy_(value)


def told(
    seen: Seen, number: int, device: torch.device, model: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor
) -> None:
    """A forward hook of torch that tells what went through."""
    seen(number, device, tuple(inputs[0].shape), tuple(outputs.shape))
