"""From what a user says about devices to the devices that there are, or to a refusal that lists them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playground import Devices, RequestError
from playground.engine import devices as module
from playground.engine.devices import MOST_CPU_REPLICAS, available, resolve

from .workbench import experiment

CPU = torch.device("cpu")
CUDA = tuple(torch.device("cuda", index) for index in range(3))

no_accelerator = pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator is here")


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be three GPUs: naming a device does not touch it."""
    monkeypatch.setattr(module, "available", lambda: list(CUDA))


@no_accelerator
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("auto", 2),
        (1, 1),
        (3, 3),
        ("3", 3),
        (" 2 ", 2),
        (MOST_CPU_REPLICAS, MOST_CPU_REPLICAS),
        ("cpu", 1),
        ("cpu:0", 1),
        ("cpu,cpu", 2),
        ("cpu, cpu:0 ,cpu", 3),
        (["cpu"], 1),
        (["cpu", "cpu"], 2),
    ],
)
def test_on_a_machine_without_accelerators_every_replica_is_on_the_cpu(asked: Devices, found: int) -> None:
    assert resolve(asked, cpu_replicas=2) == (CPU,) * found


@no_accelerator
def test_what_is_available_without_accelerators_is_the_cpu() -> None:
    assert available() == [CPU]


@no_accelerator
def test_auto_is_one_replica_unless_the_backend_says_otherwise() -> None:
    assert resolve("auto") == (CPU,)
    assert resolve("auto", cpu_replicas=5) == (CPU,) * 5


@no_accelerator
@pytest.mark.parametrize(
    "asked",
    [
        "cuda",
        "cuda:0",
        "cuda:7",
        "cuda:128",
        "cuda:999",
        "cuda:99999999999999999999",
        "cpu,cuda:0",
        "mps",
        "meta",
        "cpu:1",
        "cpu:256",
        "gpu",
        "tpu:0",
        "cpu,",
        ",",
        "",
        " ",
        "two",
        "-1",
        "1.5",
        "²",
        "cpu;cpu",
        "9" * 5000,
        ["cpu", "cuda:0"],
        ["cpu", "nonsense"],
        [""],
        [],
    ],
    ids=lambda asked: str(asked)[:24],
)
def test_a_device_that_is_not_here_is_refused_with_a_list_of_those_that_are(asked: Devices) -> None:
    with pytest.raises(RequestError, match="cpu"):
        resolve(asked)


@no_accelerator
@pytest.mark.parametrize("asked", [0, -1, 10**9, MOST_CPU_REPLICAS + 1, "0", "1000000000"])
def test_a_number_of_replicas_out_of_range_is_refused_with_the_range(asked: Devices) -> None:
    with pytest.raises(RequestError, match=f"from 1 to {MOST_CPU_REPLICAS}"):
        resolve(asked)


def test_the_refusal_names_the_device_that_is_meant() -> None:
    with pytest.raises(RequestError, match="'nonsense'"):
        resolve("cpu,nonsense")


@pytest.mark.parametrize("asked", [True, False])
def test_a_truth_value_is_no_number_of_devices(asked: bool) -> None:
    with pytest.raises(RequestError):
        resolve(asked)
    with pytest.raises(RequestError, match="devices"):
        experiment(backend={"name": "manual", "devices": asked})


@pytest.mark.parametrize("asked", [1.5, None, [1, 2], {"cpu": 1}])
def test_what_is_neither_number_nor_name_is_refused_where_the_experiment_is_put_together(asked: object) -> None:
    with pytest.raises(RequestError, match="devices"):
        experiment(backend={"name": "manual", "devices": asked})


@given(st.text(max_size=12))
@settings(deadline=None, database=None)
def test_whatever_is_typed_is_either_understood_or_refused(asked: str) -> None:
    try:
        found = resolve(asked)
    except RequestError:
        return
    assert found
    assert set(found) <= {CPU, *available()}


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("auto", CUDA),
        (1, CUDA[:1]),
        (2, CUDA[:2]),
        ("3", CUDA),
        ("cuda", CUDA[:1]),
        ("cuda:2", CUDA[2:]),
        ("cuda:2,cuda:0", (CUDA[2], CUDA[0])),
        ("cuda:1,cuda:1", (CUDA[1], CUDA[1])),
        (["cuda:0", "cpu"], (CUDA[0], CPU)),
        ("cpu,cpu", (CPU, CPU)),
    ],
)
def test_on_a_machine_with_accelerators_numbers_and_auto_mean_those(
    asked: Devices, found: tuple[torch.device, ...]
) -> None:
    assert resolve(asked, cpu_replicas=2) == found


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize("asked", [4, "cuda:3", "cuda:256", "cuda:257", "cuda:0,cuda:9"])
def test_more_accelerators_than_there_are_is_refused_with_a_list_of_all(asked: Devices) -> None:
    with pytest.raises(RequestError, match="cuda:0, cuda:1, cuda:2, cpu"):
        resolve(asked)
