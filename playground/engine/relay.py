"""Optimizers that evaluate loss and gradient again within a step, such as L-BFGS, on several replicas at once.

Equal replicas ask for equal evaluations. Each optimizer runs until it asks for one; when all have asked, one
evaluation, of every replica at the common point, answers them all. So each must be able to wait in the middle of its
step, for which it needs a thread; but only one runs at a time, so that they do not fight for the interpreter.
"""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from torch.optim import Optimizer


class Relay:
    """A step of several optimizers, who hand a baton around.

    evaluate: gives the loss at the point where all replicas are. enter, leave: called with a replica's number around
    each stretch that its optimizer runs.
    """

    def __init__(
        self,
        optimizers: list[Optimizer],
        evaluate: Callable[[], Any],
        enter: Callable[[int], None] = lambda replica: None,
        leave: Callable[[int], None] = lambda replica: None,
    ) -> None:
        self._optimizers = optimizers
        self._evaluate = evaluate
        self._enter, self._leave = enter, leave
        self._batons = [threading.Semaphore(0) for _ in optimizers]
        self._asking = [False] * len(optimizers)
        self._loss: Any = None
        self._error: BaseException | None = None

    def run(self, pool: ThreadPoolExecutor | None) -> None:
        """Take the step, each optimizer in a thread of the pool, which must have one for each; None for a single one.

        Raises RuntimeError where the replicas do not ask alike, and whatever an evaluation or an optimizer raises.
        """
        self._batons[0].release()
        if pool is None:
            self._advance(0)
        else:
            wait([pool.submit(self._advance, replica) for replica in range(len(self._optimizers))])
        if self._error is not None:
            raise self._error

    def _advance(self, replica: int) -> None:
        try:
            self._take_baton(replica)
            self._optimizers[replica].step(lambda: self._ask(replica))
            self._asking[replica] = False
            self._hand_on(replica)
        except _AbandonedError:
            pass
        except BaseException as error:
            self._error = error
            for baton in self._batons:
                baton.release()

    def _ask(self, replica: int) -> Any:
        self._asking[replica] = True
        self._hand_on(replica)
        self._take_baton(replica)
        return self._loss

    def _take_baton(self, replica: int) -> None:
        self._batons[replica].acquire()
        if self._error is not None:
            raise _AbandonedError
        self._enter(replica)

    def _hand_on(self, replica: int) -> None:
        self._leave(replica)
        if replica + 1 < len(self._batons):
            self._batons[replica + 1].release()
            return
        # The last of a round: it answers for all.
        if all(self._asking):
            # Gradients are off in an optimizer's step.
            with torch.enable_grad():
                self._loss = self._evaluate()
            self._batons[0].release()
        elif any(self._asking):
            raise RuntimeError("the replicas' optimizers are out of step: some have finished and some have not")


class _AbandonedError(Exception):
    """Another replica has failed, and nobody will hand the baton on."""
