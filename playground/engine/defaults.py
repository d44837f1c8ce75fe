"""torch's process-wide defaults, as the engine needs them, whatever the caller has set."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Gradients on, no inference mode, no autocast, new tensors in float32 and on the CPU; afterwards as before."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(dtype(torch.float32))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.get_default_device() != torch.device("cpu"):
            # Only then, since torch pays for a default device in every call.
            stack.enter_context(torch.device("cpu"))
        yield


@contextlib.contextmanager
def dtype(wanted: torch.dtype) -> Iterator[None]:
    """New tensors of floating-point numbers in this precision; afterwards as before."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(wanted)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
