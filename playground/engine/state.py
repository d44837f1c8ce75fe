"""State of an optimizer under the names of the model's parameters, so that any backend can load any other's.

torch numbers an optimizer's parameters. Here the same state is kept by name:
`{"state": {"0.weight": {"step": …, "sum": …}}, "param_groups": [{"lr": …, "params": ["0.weight", "0.bias"]}]}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def on_cpu(value: Any) -> Any:
    """A copy of a nest of dicts and lists with every tensor on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_cpu(item) for item in value)
    return value


def optimizer_state(optimizer: Optimizer, model: nn.Module) -> dict[str, Any]:
    """The optimizer's state by the names of the model's parameters, on the CPU."""
    names = _names(optimizer, model)
    state = optimizer.state_dict()
    return {
        "state": {names[number]: on_cpu(entry) for number, entry in state["state"].items()},
        "param_groups": [
            {**on_cpu(group), "params": [names[number] for number in group["params"]]}
            for group in state["param_groups"]
        ],
    }


def load_optimizer_state(optimizer: Optimizer, model: nn.Module, state: dict[str, Any]) -> None:
    """Put a state by names into the optimizer. Raises ValueError where it is of other parameters or settings."""
    numbers = {name: number for number, name in enumerate(_names(optimizer, model))}
    named = [name for group in state["param_groups"] for name in group["params"]]
    if sorted(named) != sorted(numbers):
        raise ValueError(f"the state is of the parameters {named}, the optimizer has {list(numbers)}")
    for theirs, mine in zip(state["param_groups"], optimizer.param_groups, strict=True):
        # torch takes a state of any optimizer, and fails in the next step or not at all.
        if differing := set(theirs) ^ set(mine):
            raise ValueError(f"the state is of another optimizer: they differ in {', '.join(sorted(differing))}")
    optimizer.load_state_dict(
        {
            "state": {numbers[name]: entry for name, entry in state["state"].items()},
            "param_groups": [
                {**group, "params": [numbers[name] for name in group["params"]]} for group in state["param_groups"]
            ],
        }
    )


def _names(optimizer: Optimizer, model: nn.Module) -> list[str]:
    """The name of each of the optimizer's parameters, in the order in which torch numbers them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
