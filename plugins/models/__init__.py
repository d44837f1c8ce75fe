"""The models that come with the project."""

from __future__ import annotations

from playground import Model, hookimpl


@hookimpl
def playground_models() -> list[Model]:
    return [
        Model(
            "linear",
            "playground_plugins.models.linear:linear",
            summary="One linear layer: linear regression, or softmax regression for classes",
            default=True,
            affine=True,
        ),
        Model(
            "mlp",
            "playground_plugins.models.mlp:mlp",
            summary="Hidden layers with an activation between them, with dropout and batch normalisation if wanted",
        ),
        Model(
            "lenet",
            "playground_plugins.models.lenet:lenet",
            summary="Two convolutions and two linear layers, for images (the book's net from scratch)",
        ),
        Model(
            "resnet18",
            "playground_plugins.models.resnet18:resnet18",
            summary="A residual net for small images; widths=[64,128,256,512] is ResNet-18, [8,16] one for a CPU",
        ),
    ]
