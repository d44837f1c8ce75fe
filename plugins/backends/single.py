"""The backend `single`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playground import Devices, Plan, ReplicaBackend, Request, RequestError

if TYPE_CHECKING:
    from torch import Tensor


class Single(ReplicaBackend):
    """One replica on one device."""

    def __init__(self, devices: Devices = "auto") -> None:
        """Keep what was asked for; nothing is started yet.

        Args:
            devices: the device, e.g. `cpu` or `cuda:1`; `auto` is the first accelerator, or the CPU.
        """
        super().__init__(1 if devices == "auto" else devices)

    def plan(self, request: Request) -> Plan:
        plan = super().plan(request)
        if len(plan.devices) != 1:
            raise RequestError(
                f"single trains on one device, not {len(plan.devices)}; for several take --backend manual"
            )
        return plan

    def reduce(self, gradients: list[list[Tensor]]) -> int:
        return 0
