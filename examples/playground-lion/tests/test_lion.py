import pytest
import torch
from playground_lion.lion import Lion

from playground.conformance import OptimizerConformance


class TestLion(OptimizerConformance):
    component = "lion"


def test_two_steps_are_those_worked_out_by_hand():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = Lion([weight], lr=0.1, betas=(0.9, 0.8), weight_decay=0.5)
    # m = 0: the direction is sign(0.1 g); w = w − 0.1 (sign + 0.5 w); m = 0.2 g.
    weight.grad = torch.tensor([3.0, -4.0], dtype=torch.float64)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.85, -1.8], dtype=torch.float64))
    # m = (0.6, −0.8), g = (−1, 10): 0.9 m + 0.1 g = (0.44, 0.28), so both signs are +.
    weight.grad = torch.tensor([-1.0, 10.0], dtype=torch.float64)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.7075, -1.81], dtype=torch.float64))
    torch.testing.assert_close(optimizer.state[weight]["momentum"], torch.tensor([0.28, 1.36], dtype=torch.float64))


@pytest.mark.parametrize("wrong", [{"lr": 0.0}, {"betas": (0.9, 1.0)}, {"weight_decay": -0.1}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Lion([torch.nn.Parameter(torch.zeros(1))], **wrong)
