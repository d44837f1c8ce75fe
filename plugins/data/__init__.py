"""The data sets that come with the project."""

from __future__ import annotations

from pathlib import Path

from playground import Data, hookimpl

AIRFOIL = Path(__file__).parent / "files" / "airfoil_self_noise.dat"

# What the book trains for in its chapter on optimization: minibatches of 10, a point of the curve every 200 examples.
_SETTINGS = {"model": "linear", "batch_size": 10, "epochs": 4, "eval_every": 200}


@hookimpl
def playground_data() -> list[Data]:
    return [
        Data(
            "airfoil",
            "playground_plugins.data.airfoil:load",
            summary="Noise of airfoils in a wind tunnel: 1503 rows, five features, one target",
            settings=_SETTINGS,
            origin="Brooks, Pope and Marcolini, Airfoil Self-Noise, UCI Machine Learning Repository, "
            "doi 10.24432/C5VW2C, CC BY 4.0",
            path=AIRFOIL,
            default=True,
        ),
        Data(
            "fashion-mnist",
            "playground_plugins.data.fashion_mnist.load:load",
            summary="Pictures of clothes: 60000 images to train on and 10000 to test on, ten classes",
            settings={
                "model": "lenet",
                "optimizer": "sgd:lr=0.2",
                "batch_size": 256,
                "epochs": 10,
                "evaluate": "test",
            },
            origin="Xiao, Rasul and Vollgraf 2017, Fashion-MNIST, arXiv 1708.07747, "
            "github.com/zalandoresearch/fashion-mnist, MIT licence",
            path="playground_plugins.data.fashion_mnist.files:locate",
            fetch="playground_plugins.data.fashion_mnist.download:fetch",
        ),
        Data(
            "linear-regression",
            "playground_plugins.data.linear_regression:load",
            summary="Made from a linear model that is known, with noise or without",
            settings=_SETTINGS,
            origin="synthetic",
        ),
    ]
