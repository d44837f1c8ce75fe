"""One seed, and a stream of random numbers of its own for each purpose."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from playground.engine import randomness
from playground.engine.assembly import assembled

from .workbench import experiment, run, same

CPU = torch.device("cpu")


@given(st.integers(0, 2**70), st.text(max_size=10), st.integers(0, 10**6))
@settings(deadline=None, database=None)
def test_a_purposes_seed_is_the_head_of_a_digest_and_fits_a_generator(seed: int, purpose: str, index: int) -> None:
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).hexdigest()
    derived = randomness.derive(seed, purpose, index)
    assert derived % 2**64 == int(digest[:16], 16)
    assert -(2**63) <= derived < 2**63
    randomness.generator(seed, purpose, index)


def test_a_purposes_seed_never_changes_from_one_version_to_the_next() -> None:
    # printf 0/weights/0 | sha256sum; a change would make every recorded run unrepeatable.
    assert randomness.derive(0, "weights") == 1329821625914299001


def test_seeds_purposes_and_indices_have_streams_of_their_own() -> None:
    purposes = ("weights", "order", "dropout", "augmentation")
    derived = [
        randomness.derive(seed, purpose, index) for seed in range(30) for purpose in purposes for index in range(30)
    ]
    assert len(set(derived)) == len(derived)


def test_neighbouring_streams_are_not_related() -> None:
    streams = [torch.randn(10_000, generator=randomness.generator(0, "dropout", index)) for index in range(5)]
    correlations = torch.corrcoef(torch.stack(streams)) - torch.eye(5)
    # Of independent streams: a standard deviation of 1/√10000.
    assert float(correlations.abs().max()) < 0.05


def test_a_stream_is_the_state_of_a_generator_for_its_purpose() -> None:
    torch.set_rng_state(randomness.stream(5, "dropout", 1, CPU))
    assert torch.equal(torch.rand(4), torch.rand(4, generator=randomness.generator(5, "dropout", 1)))


def test_random_numbers_are_left_as_they_were_found_also_after_an_error() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()

    def fail() -> None:
        with randomness.preserved([CPU]):
            torch.rand(3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_drawing_for_a_purpose_depends_on_the_seed_alone_and_leaves_no_trace() -> None:
    drawn: list[Tensor] = []
    for caller in (1, 2):
        torch.manual_seed(caller)
        before = torch.get_rng_state()
        with randomness.drawing(3, "weights"):
            drawn.append(torch.rand(5))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*drawn)
    assert torch.equal(drawn[0], torch.rand(5, generator=randomness.generator(3, "weights")))


def initial(**words: object) -> dict[str, Tensor]:
    with assembled(experiment(**words)) as parts:
        state: dict[str, Tensor] = parts.backend.state_dict()["model"]
        return state


@pytest.mark.parametrize("model", ["linear", "mlp:dropout=0.5,batch_norm=true"])
def test_initial_weights_do_not_depend_on_backend_batch_or_optimizer(model: str) -> None:
    expected = initial(model=model, backend="single:devices=cpu")
    for words in (
        {"backend": "manual:devices=4"},
        {"backend": "single:devices=cpu", "batch_size": 3, "optimizer": "adam"},
        {"backend": "manual:devices=2,reduce=ring", "eval_every": 10, "epochs": 1},
    ):
        assert same(initial(model=model, **words), expected)


def test_initial_weights_do_not_depend_on_the_precision_but_for_their_own() -> None:
    single, double = initial(model="mlp", dtype="float32"), initial(model="mlp", dtype="float64")
    assert all(value.dtype == torch.float64 for value in double.values())
    assert same({name: value.double() for name, value in single.items()}, double)


def test_initial_weights_do_not_depend_on_the_callers_settings() -> None:
    expected = initial(model="mlp")
    torch.manual_seed(99)
    torch.set_default_dtype(torch.float64)
    try:
        found = initial(model="mlp")
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(found, expected)


def test_initial_weights_are_drawn_from_the_stream_that_is_named_after_them() -> None:
    generator = randomness.generator(6, "weights")
    expected = torch.empty(1, 5).normal_(0, 0.01, generator=generator)
    found = initial(model="linear", seed=6)
    assert torch.equal(found["weight"], expected)
    assert torch.equal(found["bias"], torch.zeros(1))


def test_each_seed_has_initial_weights_of_its_own() -> None:
    assert len({tuple(initial(seed=seed)["weight"].flatten().tolist()) for seed in range(10)}) == 10


@pytest.mark.parametrize("seed", [0, 2**31, 2**64 + 1])
def test_a_seed_of_any_size_is_a_seed(seed: int) -> None:
    assert run(seed=seed, epochs=1, eval_every=1500).status == "done"
