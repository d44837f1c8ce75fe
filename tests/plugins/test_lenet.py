import json
import math
import os
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from playground_plugins.models.lenet import lenet
from torch.nn import functional

IMAGE = (1, 28, 28)


def test_its_parameters_are_those_of_the_book():
    assert {name: tuple(value.shape) for name, value in lenet(IMAGE, 10).named_parameters()} == {
        "conv1.weight": (20, 1, 3, 3),
        "conv1.bias": (20,),
        "conv2.weight": (50, 20, 5, 5),
        "conv2.bias": (50,),
        "linear1.weight": (128, 800),
        "linear1.bias": (128,),
        "output.weight": (10, 128),
        "output.bias": (10,),
    }


def test_weights_are_normal_and_biases_zero():
    torch.manual_seed(0)
    for name, value in lenet(IMAGE, 10).named_parameters():
        if name.endswith("bias"):
            assert torch.equal(value, torch.zeros_like(value))
        else:
            # Four standard errors of a mean, and of a standard deviation, of that many normal numbers.
            assert value.mean().abs() < 4 * 0.01 / math.sqrt(value.numel())
            assert value.std().item() == pytest.approx(0.01, abs=4 * 0.01 / math.sqrt(2 * value.numel()))


def test_the_standard_deviation_can_be_chosen():
    models = []
    for std in (0.01, 0.1):
        torch.manual_seed(0)
        models.append(lenet(IMAGE, 10, std=std))
    torch.testing.assert_close(models[1].linear1.weight, 10 * models[0].linear1.weight)


@pytest.mark.parametrize("inputs", [IMAGE, (3, 32, 32), (1, 14, 20), (2, 15, 14)])
def test_it_computes_what_the_definitions_of_its_layers_say(inputs):
    torch.manual_seed(0)
    model = lenet(inputs, 7, std=0.1).double()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.normal_()
    images = torch.rand(3, *inputs, dtype=torch.float64)
    weights = dict(model.named_parameters())

    def convolve(maps, name):
        # A convolution is a product with each window; torch's unfold is the window's definition.
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        side = weight.shape[-1]
        windows = maps.unfold(2, side, 1).unfold(3, side, 1)
        return torch.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]

    def pool(maps):
        height, width = (size // 2 * 2 for size in maps.shape[2:])
        maps = maps[:, :, :height, :width]
        return (maps[:, :, ::2, ::2] + maps[:, :, 1::2, ::2] + maps[:, :, ::2, 1::2] + maps[:, :, 1::2, 1::2]) / 4

    maps = pool(convolve(images, "conv1").clamp(min=0))
    maps = pool(convolve(maps, "conv2").clamp(min=0))
    hidden = (maps.flatten(1) @ weights["linear1.weight"].T + weights["linear1.bias"]).clamp(min=0)
    expected = hidden @ weights["output.weight"].T + weights["output.bias"]
    torch.testing.assert_close(model(images), expected, rtol=0, atol=1e-10)


def test_the_sizes_of_its_maps_are_those_of_the_book():
    sizes = [28]
    maps = torch.rand(2, *IMAGE)
    for name, layer in lenet(IMAGE, 10).named_children():
        maps = layer(maps)
        if name.startswith(("conv", "pool")):
            sizes.append(maps.shape[-1])
    assert sizes == [28, 26, 13, 9, 4]
    assert all(earlier > later for earlier, later in pairwise(sizes))


def test_an_empty_batch_has_no_outputs():
    assert lenet(IMAGE, 10)(torch.empty(0, *IMAGE)).shape == (0, 10)


def test_its_gradients_are_those_of_torch_for_all_parameters():
    model = lenet(IMAGE, 10, std=0.1)
    functional.cross_entropy(model(torch.rand(8, *IMAGE)), torch.arange(8)).backward()
    assert all(value.grad is not None and value.grad.abs().max() > 0 for value in model.parameters())


@pytest.mark.parametrize(
    ("inputs", "parameters", "what"),
    [
        ((5,), {}, r"lenet takes images of the shape (channels, height, width), not rows of the shape (5,)"),
        ((28, 28), {}, r"lenet takes images of the shape (channels, height, width), not rows of the shape (28, 28)"),
        ((1, 13, 28), {}, "lenet takes images of 14 × 14 or more, not 13 × 28"),
        ((1, 28, 13), {}, "lenet takes images of 14 × 14 or more, not 28 × 13"),
        (IMAGE, {"std": 0.0}, "std must be finite and above 0, not 0.0"),
        (IMAGE, {"std": -1.0}, "std must be finite and above 0, not -1.0"),
        (IMAGE, {"std": math.nan}, "std must be finite and above 0, not nan"),
        (IMAGE, {"std": math.inf}, "std must be finite and above 0, not inf"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(inputs, parameters, what):
    with pytest.raises(ValueError, match=r"lenet takes|std must be") as caught:
        lenet(inputs, 10, **parameters)
    assert str(caught.value) == what


def test_data_without_images_are_refused_by_the_command_in_a_line(call):
    result = call("run", "--model", "lenet")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "lenet takes images of the shape (channels, height, width), not rows of the shape (5,)" in result.err


MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="asks the system for the most memory that a process had")
def test_it_trains_on_the_real_images_on_two_replicas_in_less_than_900_megabytes(fashion_mnist, tmp_path):
    words = ["--model", "lenet", "--data", f"fashion-mnist:path={fashion_mnist}", "--batch-size", "256", "--lr", "0.2"]
    where = ["--backend", "manual", "--devices", "cpu,cpu", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "playground", "run", *words, *where, "--epochs", "1", "--progress", "none"]
    # By a small process in between: what is counted includes what the parent has at the moment of the fork.
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    first, *_, last = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    assert (summary["status"], summary["steps"], last["samples"]) == ("done", 235, 60_000)
    # At weights this small all classes are alike at first; in the first epoch the loss hardly falls, but it does.
    assert first["test_loss"] == pytest.approx(math.log(10), abs=1e-4)
    assert last["test_loss"] < first["test_loss"] - 1e-4
    # Linux counts in KiB, macOS in bytes.
    most = int(done.stdout.splitlines()[-1]) * (1 if sys.platform == "darwin" else 1024)
    assert 100e6 < most < 900e6
