"""The parallel backends that come with the project."""

from __future__ import annotations

from playground import Backend, hookimpl


@hookimpl
def playground_backends() -> list[Backend]:
    return [
        Backend(
            "single",
            "playground_plugins.backends.single:Single",
            summary="One device, no parallelism: what every other backend is compared with",
            default=True,
        ),
        Backend(
            "manual",
            "playground_plugins.backends.manual:Manual",
            summary="A full replica on every device; gradients are summed by a hand-made all-reduce",
        ),
        Backend(
            "data-parallel",
            "playground_plugins.backends.data_parallel:DataParallel",
            summary="torch.nn.DataParallel: one model, its forward pass spread over devices; on CPUs, its algorithm",
        ),
    ]
