"""Lion, after Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675, algorithm 2."""

import torch


class Lion(torch.optim.Optimizer):
    """Evolved sign momentum. With the gradient g, the momentum m and the weights w:

    c = β₁ m + (1 − β₁) g;  w ← w − lr (sign(c) + weight_decay w);  m ← β₂ m + (1 − β₂) g

    Args:
        lr: the size of a step; a tenth to a third of what Adam takes.
        betas: β₁, of the direction, and β₂, of the momentum; each from 0 to below 1.
        weight_decay: decoupled from the gradient, as in AdamW.
    """

    def __init__(self, params, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0):
        if not lr > 0:
            raise ValueError(f"lr must be above 0, not {lr}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be from 0 to below 1, not {betas}")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay must be 0 or more, not {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                state = self.state[weights]
                if not state:
                    state["momentum"] = torch.zeros_like(weights)
                direction = state["momentum"].lerp(weights.grad, 1 - beta1).sign()
                weights.sub_(direction + group["weight_decay"] * weights, alpha=group["lr"])
                state["momentum"].lerp_(weights.grad, 1 - beta2)
        return loss
