"""One seed, an independent stream of random numbers per purpose."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def derive(seed: int, purpose: str, index: int = 0) -> int:
    """A seed of its own for a purpose (`weights`, `order`, `dropout` …) and an index (an epoch, a replica).

    The first eight bytes of a SHA-256, so that neither neighbouring seeds nor neighbouring indices are related.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def generator(seed: int, purpose: str, index: int = 0) -> torch.Generator:
    """A CPU generator for a purpose."""
    return torch.Generator().manual_seed(derive(seed, purpose, index))


def stream(seed: int, purpose: str, index: int, device: torch.device) -> Tensor:
    """The initial state of a device's generator for a purpose, as `set_state` takes it."""
    return torch.Generator(device).manual_seed(derive(seed, purpose, index)).get_state()


def get_state(device: torch.device) -> Tensor:
    """The state of the device's default generator, the one that dropout draws from."""
    if device.type == "cpu":
        return torch.get_rng_state()
    return cast("Tensor", torch.get_device_module(device).get_rng_state(device))


def set_state(device: torch.device, state: Tensor) -> None:
    """Put the device's default generator into a state."""
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


@contextlib.contextmanager
def preserved(devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Leave the default generators, the CPU's among them, as they were found."""
    states = {device: get_state(device) for device in {torch.device("cpu"), *devices}}
    try:
        yield
    finally:
        for device, state in states.items():
            set_state(device, state)


@contextlib.contextmanager
def drawing(seed: int, purpose: str, index: int = 0) -> Iterator[None]:
    """Let the default CPU generator draw from a purpose's stream, and put it back afterwards."""
    with preserved():
        start(seed, purpose, index)
        yield


def start(seed: int, purpose: str, index: int = 0) -> None:
    """Let the default CPU generator draw from a purpose's stream, from its beginning."""
    cpu = torch.device("cpu")
    set_state(cpu, stream(seed, purpose, index, cpu))
