import math

import pytest
import torch
from playground_plugins.models.resnet18 import resnet18
from torch import nn
from torch.nn import functional

IMAGE = (1, 28, 28)
THIN = (4, 8)


def count(widths, outputs, channels=1):
    """Numbers in a net, from its layers' definitions: of a convolution k²·in·out + out, of a batch norm 2·out."""
    total = 9 * channels * widths[0] + widths[0] + 2 * widths[0]
    before = widths[0]
    for number, width in enumerate(widths):
        for first in (True, False):
            into = before if first else width
            total += 9 * into * width + width + 2 * width
            total += 9 * width * width + width + 2 * width
            if first and number > 0:
                total += into * width + width
        before = width
    return total + before * outputs + outputs


def blank(*arguments, **parameters):
    """A model without memory, for those that are large."""
    with torch.device("meta"):
        return resnet18(*arguments, **parameters)


@pytest.mark.parametrize(
    ("widths", "numbers"),
    [
        # torchvision's resnet18 has 11 689 512 for 1000 classes; less 990 · 513 for 10 classes, less 8768 for a stem of
        # 3 × 3 on one channel with a bias, less 1792 of the norms of its shortcuts, and 4736 more for the other biases.
        ((64, 128, 256, 512), 11_175_818),
        ((64, 128, 256, 512, 1024, 1024), 83_559_306),
    ],
)
def test_the_widths_of_the_book_give_the_numbers_of_parameters(widths, numbers):
    assert count(widths, 10) == numbers
    assert sum(value.numel() for value in blank(IMAGE, 10, widths=widths).parameters()) == numbers


def test_the_six_groups_of_the_book_are_the_default():
    assert sum(value.numel() for value in blank(IMAGE, 10).parameters()) == 83_559_306


@pytest.mark.parametrize("widths", [(3,), (4, 4), (4, 8, 8, 2)])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_widths_give_a_group_each(widths, channels):
    model = resnet18((channels, 9, 9), 5, widths=widths)
    assert sum(value.numel() for value in model.parameters()) == count(widths, 5, channels)
    assert [name for name, _ in model.named_children() if name.startswith("group")] == [
        f"group{number}" for number in range(1, len(widths) + 1)
    ]
    assert model(torch.rand(2, channels, 9, 9)).shape == (2, 5)


def test_each_group_after_the_first_halves_the_maps():
    model = resnet18(IMAGE, 10, widths=(2, 2, 2, 2, 2, 2))
    sizes = []
    maps = torch.rand(2, *IMAGE)
    for name, layer in model.named_children():
        maps = layer(maps)
        if name.startswith(("norm", "group", "pool")):
            sizes.append(tuple(maps.shape[2:]))
    assert sizes == [(28, 28), (28, 28), (14, 14), (7, 7), (4, 4), (2, 2), (1, 1), (1, 1)]


def test_the_weights_of_convolutions_and_the_linear_layer_are_normal():
    torch.manual_seed(0)
    model = resnet18(IMAGE, 10, widths=(64, 128))
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            weight = layer.weight
            # Four standard errors of a mean, and of a standard deviation, of that many normal numbers.
            assert weight.mean().abs() < 4 * 0.01 / math.sqrt(weight.numel())
            assert weight.std().item() == pytest.approx(0.01, abs=4 * 0.01 / math.sqrt(2 * weight.numel()))
        elif isinstance(layer, nn.BatchNorm2d):
            assert torch.equal(layer.weight, torch.ones_like(layer.weight))
            assert torch.equal(layer.bias, torch.zeros_like(layer.bias))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_it_computes_what_the_definitions_of_its_layers_say(batch_norm):
    torch.manual_seed(0)
    model = resnet18((2, 9, 7), 3, widths=THIN, batch_norm=batch_norm, std=0.2).double()
    images = torch.rand(5, 2, 9, 7, dtype=torch.float64)
    weights = dict(model.named_parameters())

    def convolve(maps, name, stride=1):
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        side = weight.shape[-1]
        maps = functional.pad(maps, [side // 2] * 4)
        windows = maps.unfold(2, side, stride).unfold(3, side, stride)
        return torch.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]

    def normalise(maps, name):
        if not batch_norm:
            return maps
        # Ioffe and Szegedy 2015, algorithm 1, over rows and places; the weights are 1 and 0.
        mean = maps.mean(dim=(0, 2, 3), keepdim=True)
        variance = ((maps - mean) ** 2).mean(dim=(0, 2, 3), keepdim=True)
        return (maps - mean) / torch.sqrt(variance + 1e-5)

    maps = normalise(convolve(images, "conv"), "norm").clamp(min=0)
    for block, stride in [("group1.block1", 1), ("group1.block2", 1), ("group2.block1", 2), ("group2.block2", 1)]:
        hidden = normalise(convolve(maps, f"{block}.conv1", stride), f"{block}.norm1").clamp(min=0)
        hidden = normalise(convolve(hidden, f"{block}.conv2"), f"{block}.norm2")
        added = convolve(maps, f"{block}.shortcut", stride) if stride == 2 else maps
        maps = (hidden + added).clamp(min=0)
    expected = maps.mean(dim=(2, 3)) @ weights["output.weight"].T + weights["output.bias"]
    torch.testing.assert_close(model(images), expected, rtol=0, atol=1e-10)


def test_without_batch_norm_a_row_does_not_depend_on_the_others():
    torch.manual_seed(0)
    model = resnet18(IMAGE, 10, widths=THIN, batch_norm=False, std=0.2).double()
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in model.modules())
    assert not list(model.buffers())
    images = torch.rand(4, *IMAGE, dtype=torch.float64)
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=0, atol=1e-12)


def test_the_names_of_its_parameters_do_not_depend_on_batch_norm():
    plain = [name for name, _ in resnet18(IMAGE, 10, widths=THIN, batch_norm=False).named_parameters()]
    normed = [name for name, _ in resnet18(IMAGE, 10, widths=THIN).named_parameters() if "norm" not in name]
    assert plain == normed


@pytest.mark.parametrize(
    ("inputs", "parameters", "what"),
    [
        ((5,), {}, "resnet18 takes images of the shape (channels, height, width), not rows of the shape (5,)"),
        (IMAGE, {"widths": ()}, "widths must have a number of channels for each group, and has none"),
        (IMAGE, {"widths": (8, 0)}, "widths must be numbers of channels of 1 or more, not 0"),
        (IMAGE, {"widths": (-8,)}, "widths must be numbers of channels of 1 or more, not -8"),
        (IMAGE, {"std": math.nan}, "std must be finite and above 0, not nan"),
        (IMAGE, {"std": 0.0}, "std must be finite and above 0, not 0.0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(inputs, parameters, what):
    with pytest.raises(ValueError, match=r"resnet18 takes|must") as caught:
        resnet18(inputs, 10, **{"widths": THIN, **parameters})
    assert str(caught.value) == what
