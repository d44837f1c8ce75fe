"""A component is not blamed for the faults of what is installed beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from playground import Backend, Optimizer, Registry, ReplicaBackend, RequestError
from playground.conformance import check

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTY = """
import torch
from playground import Backend, Optimizer, ReplicaBackend, hookimpl

class Needs(torch.optim.SGD):
    def __init__(self, params, value: float, lr: float = 0.1):
        super().__init__(params, lr=lr)

class Raises(torch.optim.SGD):
    def __init__(self, params, lr: float = 0.1):
        super().__init__(params, lr=lr)
    def step(self, closure=None):
        raise ArithmeticError("the optimizer's own fault")

class Leaves(Raises):
    def step(self, closure=None):
        raise SystemExit(3)

class Draws(torch.optim.SGD):
    taken = 0
    def __init__(self, params, lr: float = 0.1):
        super().__init__(params, lr=lr)
    def step(self, closure=None):
        Draws.taken += 1
        self.param_groups[0]["params"][0].data.add_(Draws.taken)
        return super().step(closure)

class RaisesWhereItReduces(ReplicaBackend):
    def reduce(self, gradients):
        raise ArithmeticError("the backend's own fault")

class AddsNothing(ReplicaBackend):
    def reduce(self, gradients):
        return 0

def nothing(devices: int = 1):
    return None

@hookimpl
def playground_optimizers():
    return [Optimizer(one.__name__.lower(), one) for one in (Needs, Raises, Leaves, Draws)]

@hookimpl
def playground_backends():
    return [
        Backend("raises-where-it-reduces", RaisesWhereItReduces),
        Backend("adds-nothing", AddsNothing),
        Backend("nothing", nothing),
    ]
"""


class Sum(ReplicaBackend):
    def reduce(self, gradients: list[list[torch.Tensor]]) -> int:
        for column in zip(*gradients, strict=True):
            total = torch.stack(column).sum(dim=0)
            for one in column:
                one.copy_(total)
        return 0


@pytest.fixture
def faulty(install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[..., None]) -> Registry:
    in_process_plugins(install_plugin("optim-faulty", FAULTY, "faulty"))
    return Registry()


def verdicts(kind: str, component: Any, registry: Registry) -> dict[str, tuple[str, str]]:
    return {one.check.name: (one.verdict, one.evidence) for one in check(kind, component, registry).outcomes}


def test_an_optimizer_is_not_blamed_for_a_backend(faulty: Registry) -> None:
    found = verdicts("optimizer", "sgd", faulty)
    assert found["is-the-same-on-every-exact-backend"] == (
        "pass",
        "the kit's replicas, data-parallel on 1, data-parallel on 2, data-parallel on 3, manual on 1, manual on 2, "
        "manual on 3, single on 1; left out as faulty: adds-nothing, nothing, raises-where-it-reduces",
    )


def test_a_backend_is_not_blamed_for_an_optimizer_or_another_backend(faulty: Registry) -> None:
    found = verdicts("backend", "manual", faulty)
    verdict, equal = found["equals-one-device-with-every-optimizer"]
    assert verdict == "pass"
    good, _, odd = equal.partition("; left out as faulty: ")
    assert "sgd" in good.split(", ")
    # What needs a value is not tried at all.
    assert odd == "draws, leaves, raises"
    assert found["goes-on-from-any-backend-s-state"] == (
        "pass",
        "one device, the kit's two replicas, data-parallel on 2, data-parallel on 1, single on 1; "
        "left out as faulty: adds-nothing, nothing, raises-where-it-reduces",
    )


def test_the_faulty_ones_are_blamed_themselves(faulty: Registry) -> None:
    said = "the backend's own fault"
    assert said in verdicts("backend", "raises-where-it-reduces", faulty)["is-a-backend"][1]
    assert verdicts("optimizer", "raises", faulty)["is-an-optimizer"] == (
        "fail",
        "ArithmeticError: the optimizer's own fault",
    )


def test_a_backend_that_cannot_be_built_fails_where_one_that_refuses_is_not_applicable(faulty: Registry) -> None:
    nothing = verdicts("backend", "nothing", faulty)
    assert nothing.keys() == {"is-loaded", "is-a-backend"}
    assert nothing["is-a-backend"][0] == "fail"
    assert nothing["is-a-backend"][1].endswith("gives a NoneType, not a ParallelBackend")

    def absent(devices: int = 1) -> Any:
        raise RequestError("there is no such machine here")

    refused = verdicts("backend", Backend("absent", absent), Registry())
    assert {verdict for verdict, _ in refused.values()} == {"pass", "n/a"}
    assert "there is no such machine here" in refused["equals-one-device"][1]


def test_a_backend_that_slips_does_not_refuse() -> None:
    def slips(devices: int = 2) -> Any:
        return dict([(1, 2, 3)])  # type: ignore[list-item]

    found = verdicts("backend", Backend("slips", slips), Registry())
    assert found.keys() == {"is-loaded", "is-a-backend"}
    assert found["is-a-backend"][0] == "fail"
    assert "dictionary update sequence element" in found["is-a-backend"][1]


def test_without_an_optimizer_none_is_tried() -> None:
    found = verdicts("backend", Backend("sum", Sum), Registry(entry_points=[]))
    assert found["equals-one-device-with-every-optimizer"] == ("n/a", "there is no optimizer to try it with")


def test_ways_of_computing_do_not_agree_where_the_plain_one_fails() -> None:
    class Fails(torch.optim.SGD):
        def __init__(self, params: Any, lr: float = 0.1, foreach: bool = True) -> None:
            super().__init__(params, lr=lr)

            self.taken = 0

        def step(self, closure: Any = None) -> Any:
            self.taken += 1
            if self.taken > 1:
                raise ArithmeticError("in no way")

    found = verdicts("optimizer", Optimizer("fails", Fails), Registry())
    assert found["ways-of-computing-agree"] == ("fail", "ArithmeticError: in no way")
