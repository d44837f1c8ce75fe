"""torch's process-wide defaults belong to the caller: they change no run, and no run changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from .workbench import run

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def odd_defaults() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def _losses(data: str) -> list[float | None]:
    words = {"model": "mlp:hidden=[8],dropout=0.2", "backend": "manual:devices=2", "epochs": 1}
    return [record["train_loss"] for record in run(data=data, **words).history]


@pytest.fixture(params=["airfoil:rows=400", "linear-regression"])
def expected(request: pytest.FixtureRequest) -> tuple[str, list[float | None]]:
    """Data, and its losses under torch's own defaults."""
    return request.param, _losses(request.param)


def test_a_run_has_the_same_numbers_whatever_the_callers_defaults(
    expected: tuple[str, list[float | None]], odd_defaults: None
) -> None:
    data, losses = expected
    with torch.no_grad():
        assert _losses(data) == losses
        assert not torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float64
    assert torch.get_default_device() == torch.device("meta")


def test_a_model_that_makes_tensors_makes_them_in_the_experiments_precision() -> None:
    seen = []

    class Shifted(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            seen.append(torch.ones(1).dtype)
            return super().forward(input + torch.ones(1))

    from playground import Model

    model = Model("shifted", lambda inputs, outputs: Shifted(inputs[0], outputs))
    assert run(data="linear-regression", model=model, epochs=1, dtype="float64").status == "done"
    assert set(seen) == {torch.float64}
