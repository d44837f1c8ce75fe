"""The optimizer Lion for Playground."""

from playground import Optimizer, hookimpl


@hookimpl
def playground_optimizers():
    return [
        Optimizer(
            "lion",
            "playground_lion.lion:Lion",
            summary="Steps of one size per weight, along the sign of an interpolated momentum",
            defaults={"lr": 1e-3},
        )
    ]
