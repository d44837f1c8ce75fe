"""From what a user says about devices to the devices that there are."""

from __future__ import annotations

import re

import torch

from playground.errors import RequestError

Devices = int | str | list[str]
"""A number of replicas, `auto`, a device, or several: `2`, `"cpu,cpu"`, `["cuda:0", "cuda:2"]`."""

MOST_CPU_REPLICAS = 256


def available() -> list[torch.device]:
    """The accelerators that torch offers here, else the CPU."""
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator()
        if kind is not None:
            return [torch.device(kind.type, index) for index in range(torch.accelerator.device_count())]
    return [torch.device("cpu")]


def resolve(devices: Devices, cpu_replicas: int = 1) -> tuple[torch.device, ...]:
    """The devices that are meant, one for each replica.

    `auto` is every accelerator, or `cpu_replicas` replicas on the CPU where there is none; a number is that many
    accelerators, or that many replicas on the CPU. Raises RequestError where a device is not here, and says what is.
    """
    here = available()
    on_cpu = here[0].type == "cpu"
    if devices == "auto":
        return tuple(here * cpu_replicas if on_cpu else here)
    if isinstance(devices, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", devices):
        devices = int(devices)
    if isinstance(devices, bool) or devices == []:
        raise RequestError(f"devices={devices!r} says no devices; there are: {_listed(here)}")
    if isinstance(devices, int):
        most = MOST_CPU_REPLICAS if on_cpu else len(here)
        if not 1 <= devices <= most:
            raise RequestError(f"devices={devices} is out of range: from 1 to {most} here ({_listed(here)})")
        return tuple(here * devices if on_cpu else here[:devices])
    names = devices.split(",") if isinstance(devices, str) else devices
    return tuple(_one(name.strip(), here) for name in names)


def _one(name: str, here: list[torch.device]) -> torch.device:
    # Compared as text: torch takes `cpu:256` and `cuda:999` for devices and loses the upper bits of the number.
    known = {str(device): device for device in [*here, torch.device("cpu")]}
    device = known.get(name) or known.get(name.removesuffix(":0")) or known.get(f"{name}:0")
    if device is None:
        raise RequestError(f"there is no device '{name}' here; there are: {_listed(here)}")
    return device


def _listed(here: list[torch.device]) -> str:
    return ", ".join(dict.fromkeys(str(device) for device in [*here, torch.device("cpu")]))
