"""The same work for every replica of this process: one after another, or each in a thread."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch

from playground.engine import randomness
from playground.engine.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.optim import Optimizer

T = TypeVar("T")

Concurrency = Literal["auto", "threads", "turns"]

TRIALS = 3
"""How many steps are taken in turn and timed before threads may be used; the first ones also warm torch up."""

WORTH_A_THREAD = 1e-3
"""Seconds of work of one replica below which handing it to a thread, and sharing the interpreter, costs more."""


class Team:
    """Runs a function of the replica's number for every replica of this process.

    On the CPU each replica gets a thread, if its work is long enough to be worth one (`auto`); kernels on accelerators
    run at the same time anyway, each on its device's stream. The results do not depend on the choice. A model that
    draws random numbers (dropout) is always run in turn where replicas share a device: they share its generator too,
    and each replica has a stream of its own, which only taking turns can keep.
    """

    def __init__(self, devices: tuple[torch.device, ...], seed: int, concurrency: Concurrency = "auto") -> None:
        self._devices = devices
        self._wanted = concurrency
        self._pool: ThreadPoolExecutor | None = None
        self._relay_pool: ThreadPoolExecutor | None = None
        self._trials: list[float] = []
        self._updates = 0
        self._noisy_updates = False
        self._streams = [randomness.stream(seed, "dropout", replica, device) for replica, device in enumerate(devices)]
        self._common = {device: randomness.stream(seed, "optimizer", 0, device) for device in devices}
        # A replica alone on its device has the device's generator to itself; those that share one swap their states in.
        self._shared = len(set(devices)) < len(devices)
        self._install()

    def each(self, work: Callable[[int], T]) -> list[T]:
        """The results of work that draws no random numbers, in the order of the replicas."""
        replicas = range(len(self._devices))
        if self._pool is None:
            return [work(replica) for replica in replicas]
        futures = [self._pool.submit(work, replica) for replica in replicas]
        # All must be finished before one failure is reported, or a thread would still be at work on a closed backend.
        wait(futures)
        return [future.result() for future in futures]

    def differentiate(self, work: Callable[[int], T]) -> list[T]:
        """The results of forward and backward, each replica drawing from its own stream."""
        if not self._shared:
            return self.each(work)
        if self._pool is None:
            return self._in_turn(work) if len(self._trials) >= TRIALS else self._try(work)
        before = self._states()
        results = self.each(work)
        if _moved(before, self._states()):
            # It drew nothing in its first steps and does now, in an order that nobody knows: take the step again, in
            # turn. Gradients are set anew; only running statistics count this one batch twice.
            self._pool.shutdown()
            self._pool = None
            results = self._in_turn(work)
        return results

    def update(self, work: Callable[[int], T]) -> list[T]:
        """The results of the optimizers' steps; optimizers that draw random numbers all draw the same ones."""
        if self._updates >= TRIALS and not self._noisy_updates:
            return self.each(work)
        self._updates += 1
        common, results = self._common, []
        for replica, device in enumerate(self._devices):
            mine = randomness.get_state(device)
            randomness.set_state(device, common[device])
            results.append(work(replica))
            self._common = {**self._common, device: randomness.get_state(device)}
            randomness.set_state(device, mine)
        self._noisy_updates = self._noisy_updates or _moved(list(common.values()), list(self._common.values()))
        return results

    def update_together(self, optimizers: list[Optimizer], evaluate: Callable[[], Any]) -> None:
        """A step of optimizers that evaluate again within it; they too all draw the same random numbers."""
        outer = self._states()
        mine = [self._common[device] for device in self._devices]

        def enter(replica: int) -> None:
            outer[replica] = randomness.get_state(self._devices[replica])
            randomness.set_state(self._devices[replica], mine[replica])

        def leave(replica: int) -> None:
            mine[replica] = randomness.get_state(self._devices[replica])
            randomness.set_state(self._devices[replica], outer[replica])

        if self._relay_pool is None and len(optimizers) > 1:
            self._relay_pool = ThreadPoolExecutor(len(optimizers), thread_name_prefix="relay")
        Relay(optimizers, evaluate, enter, leave).run(self._relay_pool)
        self._common = dict(zip(self._devices, mine, strict=True))

    def streams(self) -> dict[str, Any]:
        """The state of all streams of random numbers, for `restore`."""
        dropout = self._streams if self._shared else self._states()
        return {
            "devices": [device.type for device in self._devices],
            "dropout": list(dropout),
            "optimizer": {device.type: state for device, state in self._common.items()},
        }

    def restore(self, streams: dict[str, Any]) -> None:
        """Go on from such streams; other numbers or kinds of devices have other streams and keep their own."""
        if streams["devices"] == [device.type for device in self._devices]:
            self._streams = list(streams["dropout"])
            self._install()
        self._common = {device: streams["optimizer"].get(device.type, state) for device, state in self._common.items()}
        self._updates = 0

    def close(self) -> None:
        """End the threads."""
        for pool in (self._pool, self._relay_pool):
            if pool is not None:
                pool.shutdown()
        self._pool = self._relay_pool = None

    def _install(self) -> None:
        if not self._shared:
            for device, state in zip(self._devices, self._streams, strict=True):
                randomness.set_state(device, state)

    def _in_turn(self, work: Callable[[int], T]) -> list[T]:
        results = []
        for replica, device in enumerate(self._devices):
            randomness.set_state(device, self._streams[replica])
            results.append(work(replica))
            self._streams[replica] = randomness.get_state(device)
        return results

    def _try(self, work: Callable[[int], T]) -> list[T]:
        before = list(self._streams)
        started = time.perf_counter()
        results = self._in_turn(work)
        # A model that draws is never worth threads, however long it takes.
        draws = _moved(before, self._streams)
        self._trials.append(0.0 if draws else (time.perf_counter() - started) / len(self._devices))
        if len(self._trials) == TRIALS and self._worth_threads():
            self._pool = ThreadPoolExecutor(len(self._devices), thread_name_prefix="replica")
        return results

    def _worth_threads(self) -> bool:
        if 0.0 in self._trials or self._wanted == "turns":
            return False
        return self._wanted == "threads" or (self._devices[0].type == "cpu" and min(self._trials) > WORTH_A_THREAD)

    def _states(self) -> list[Tensor]:
        return [randomness.get_state(device) for device in self._devices]


def _moved(before: list[Tensor], after: list[Tensor]) -> bool:
    return not all(map(torch.equal, before, after))
