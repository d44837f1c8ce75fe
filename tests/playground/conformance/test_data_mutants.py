"""The kit tests itself: each data set here is wrong in one way, and fails the check that is meant for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from playground import Data, Dataset, Registry
from playground.conformance import check

REGISTRY = Registry()


def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=generator)
    return inputs, inputs.sum(dim=1, keepdim=True)


def right() -> Dataset:
    return Dataset(rows(40, 0), rows(10, 1))


def classes() -> Dataset:
    train, test = rows(40, 0)[0], rows(10, 1)[0]
    return Dataset((train, train.argmax(1)), (test, test.argmax(1)), task="classification", classes=4)


def raising() -> Dataset:
    raise OSError("the file is not there")


def not_a_data_set() -> Any:
    return rows(40, 0)


def test_what_the_component_names_must_be_there() -> None:
    def said(**fields: Any) -> tuple[str, str]:
        (found,) = [
            one
            for one in check("data", Data("mine", right, **fields), REGISTRY).outcomes
            if one.check.name == "what-it-names-is-there"
        ]
        return found.verdict, found.evidence

    assert said() == ("n/a", "it names nothing")
    assert said(settings={"model": "mlp:hidden=[4]", "optimizer": "sgd"}) == (
        "pass",
        "model mlp:hidden=[4], optimizer sgd",
    )
    assert said(settings={"model": "nosuch"})[1].startswith("unknown model 'nosuch'")
    assert said(settings={"optimizer": "sgd:rate=1"}) == (
        "fail",
        "optimizer 'sgd' has no parameter 'rate'; it has: " + ", ".join(REGISTRY.get("optimizer", "sgd").parameters),
    )
    assert said(path="no.such:thing")[0] == "fail"
    assert said(fetch="no.such:thing") == ("fail", "ModuleNotFoundError: No module named 'no'")


def another_shape_to_test() -> Dataset:
    inputs, targets = rows(10, 1)
    return replace(right(), test=(inputs[:, :3], targets))


def another_type_to_test() -> Dataset:
    inputs, targets = rows(10, 1)
    return replace(right(), test=(inputs.double(), targets))


def a_hole() -> Dataset:
    made = right()
    made.train[0][7, 2] = float("nan")  # type: ignore[index]
    return made


def an_infinite_target() -> Dataset:
    made = right()
    made.test[1][3] = float("inf")  # type: ignore[index]
    return made


def flat_targets() -> Dataset:
    return Dataset(*((inputs, targets[:, 0]) for inputs, targets in (rows(40, 0), rows(10, 1))))


def whole_targets() -> Dataset:
    return Dataset(*((inputs, targets.long()) for inputs, targets in (rows(40, 0), rows(10, 1))))


def short_classes() -> Dataset:
    made = classes()
    train, test = ((inputs, targets.int()) for inputs, targets in (made.train, made.test))  # type: ignore[misc, union-attr]
    return replace(made, train=train, test=test)


def an_absent_class() -> Dataset:
    return replace(classes(), classes=5)


def another_each_time() -> Dataset:
    generator = torch.Generator()
    generator.seed()
    made = right()
    made.train[0].add_(torch.rand(40, 4, generator=generator))  # type: ignore[index]
    return made


def another_number_each_time(taken: list[int] = []) -> Dataset:  # noqa: B006
    taken.append(1)
    return Dataset(rows(40 + len(taken), 0))


def trained_and_tested() -> Dataset:
    train = rows(40, 0)
    return Dataset(train, (train[0][:3], train[1][:3]))


def standardised_over_both() -> Dataset:
    inputs, targets = rows(50, 0)
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0)
    return Dataset((inputs[:40], targets[:40]), (inputs[40:], targets[40:]))


def standardised_over_training_rows() -> Dataset:
    inputs, targets = rows(50, 0)
    inputs = (inputs - inputs[:40].mean(dim=0)) / inputs[:40].std(dim=0)
    return Dataset((inputs[:40], targets[:40]), (inputs[40:], targets[40:]))


def waived() -> Dataset:
    return replace(standardised_over_both(), waives={"its-scale-does-not-come-from-test-rows": "so it was published"})


def waives_what_is_no_check() -> Dataset:
    return replace(right(), waives={"its-scale": "so it was published"})


def failures(factory: Any) -> dict[str, str]:
    report = check("data", Data("mutant", factory), REGISTRY)
    return {one.check.name: one.evidence for one in report.outcomes if one.verdict == "fail"}


@pytest.mark.parametrize("factory", [right, classes, standardised_over_training_rows, waived])
def test_what_is_right_passes(factory: Any) -> None:
    assert failures(factory) == {}


@pytest.mark.parametrize(
    ("factory", "name", "evidence"),
    [
        (raising, "is-a-data-set", "the file is not there"),
        (not_a_data_set, "is-a-data-set", "tuple"),
        (waives_what_is_no_check, "is-a-data-set", "it waives 'its-scale', which is none of"),
        (another_shape_to_test, "its-rows-have-one-shape", "test has inputs [3] float32"),
        (another_type_to_test, "its-rows-have-one-shape", "test has inputs [4] float64"),
        (a_hole, "its-numbers-are-finite", "1 rows of train have inputs that are not finite"),
        (an_infinite_target, "its-numbers-are-finite", "1 rows of test have targets that are not finite"),
        (flat_targets, "its-targets-fit-its-task", "(40,), not (N, k)"),
        (whole_targets, "its-targets-fit-its-task", "torch.int64, not floats"),
        (short_classes, "its-targets-fit-its-task", "torch.int32, not int64"),
        (an_absent_class, "its-targets-fit-its-task", "no training row has the class [4]"),
        (another_each_time, "is-the-same-under-a-seed", "the inputs of train differ"),
        (another_number_each_time, "is-the-same-under-a-seed", "rows, then"),
        (trained_and_tested, "train-and-test-share-no-row", "3 of 3 different test rows are training rows too"),
        (standardised_over_both, "its-scale-does-not-come-from-test-rows", "column 0 has mean 0"),
    ],
)
def test_a_mutant_fails_the_check_that_is_meant_for_it(factory: Any, name: str, evidence: str) -> None:
    found = failures(factory)
    assert name in found
    assert evidence in found[name]


def test_holes_in_the_same_places_are_the_same_data() -> None:
    assert failures(a_hole).keys() == {"its-numbers-are-finite"}


def test_what_the_data_waive_does_not_apply_for_their_reason() -> None:
    report = check("data", Data("mutant", waived), REGISTRY)
    (outcome,) = (one for one in report.outcomes if one.check.name == "its-scale-does-not-come-from-test-rows")
    assert outcome.verdict == "n/a"
    assert outcome.evidence.startswith("waived, since so it was published: ")


def test_what_is_waived_without_need_is_looked_at() -> None:
    made = replace(right(), waives={"train-and-test-share-no-row": "one never knows"})
    report = check("data", Data("mutant", lambda: made), REGISTRY)
    (outcome,) = (one for one in report.outcomes if one.check.name == "train-and-test-share-no-row")
    assert outcome.verdict == "pass"
