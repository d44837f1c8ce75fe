"""What a data set promises."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from playground.components import KINDS, resolve
from playground.conformance.checks import Checks, NotApplicableError, Subject, require
from playground.engine import randomness
from playground.engine.dataset import Dataset, Rows, count
from playground.experiment import Choice, suggested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playground.components import Data

CHECKS = Checks()

SOME = 256
"""Rows that are looked at of a data set that is not in memory."""

WAIVABLE = ("train-and-test-share-no-row", "its-scale-does-not-come-from-test-rows")
"""The checks that data may knowingly not keep: how they were published decides."""

TYPICAL = 1e-5
"""How near to 0 and 1 a mean and a standard deviation are that somebody has made so, in float32."""


def built(subject: Subject) -> Dataset:
    with randomness.drawing(0, "data"):
        made = subject.choice.build()
    require(isinstance(made, Dataset), f"it is a {type(made).__name__}, not a playground.Dataset")
    return made  # type: ignore[no-any-return]


def splits(dataset: Dataset) -> Iterator[tuple[str, Rows]]:
    yield "train", dataset.train
    if dataset.test is not None:
        yield "test", dataset.test


def demand(dataset: Dataset, check: str, holds: bool, evidence: str) -> None:
    """Raise ConformanceError unless something holds; NotApplicableError where the data say that they do not keep it."""
    if not holds and check in dataset.waives:
        raise NotApplicableError(f"waived, since {dataset.waives[check]}: {evidence}")
    require(holds, evidence)


def tensors(rows: Rows) -> tuple[Tensor, Tensor]:
    """Inputs and targets; of rows that are not in memory the first ones."""
    if isinstance(rows, tuple):
        return rows
    pairs: list[Any] = [rows[number] for number in range(min(SOME, count(rows)))]
    inputs, targets = zip(*pairs, strict=True)
    return torch.stack([torch.as_tensor(one) for one in inputs]), torch.stack([torch.as_tensor(one) for one in targets])


@CHECKS.add_decisive
def is_a_data_set(subject: Subject) -> str:
    """It is built with its defaults, and is a playground.Dataset."""
    dataset = built(subject)
    for name in dataset.waives:
        require(name in WAIVABLE, f"it waives '{name}', which is none of {', '.join(WAIVABLE)}")
    return ", ".join(f"{count(rows)} rows to {name}" for name, rows in splits(dataset))


@CHECKS.add
def what_it_names_is_there(subject: Subject) -> str:
    """The model and the optimizer of its settings are components with these parameters; its path can be asked for, and
    what fetches it can be imported."""
    component = cast("Data", subject.choice.registration.component)
    said = []
    words = suggested(subject.registry, subject.choice.registration)
    for kind in [kind for kind in KINDS if kind in words]:
        name, asked = words[kind]
        said.append(f"{kind} {Choice.of(subject.registry.get(kind, name), asked)}")
    if component.path is not None:
        component.locate()
        said.append("path")
    if component.fetch is not None:
        resolve(component.fetch)
        said.append("fetch")
    if not said:
        raise NotApplicableError("it names nothing")
    return ", ".join(said)


@CHECKS.add
def its_rows_have_one_shape(subject: Subject) -> str:
    """Inputs and targets of the test rows have the shapes and types of those of the training rows."""
    found = {}
    for name, rows in splits(built(subject)):
        found[name] = ", ".join(
            f"{what} {list(values.shape[1:])} {str(values.dtype).removeprefix('torch.')}"
            for what, values in zip(("inputs", "targets"), tensors(rows), strict=True)
        )
        require(found[name] == found["train"], f"{name} has {found[name]}; train has {found['train']}")
    return found["train"]


@CHECKS.add
def its_numbers_are_finite(subject: Subject) -> None:
    """No input and no target is infinite or not a number."""
    for name, rows in splits(built(subject)):
        for what, values in zip(("inputs", "targets"), tensors(rows), strict=True):
            wrong = values.shape[0] - int(values.reshape(len(values), -1).isfinite().all(dim=1).sum())
            require(not wrong, f"{wrong} rows of {name} have {what} that are not finite")


@CHECKS.add
def its_targets_fit_its_task(subject: Subject) -> str:
    """Regression: floating-point targets of shape (N, k). Classification: (N,) of int64, and every class occurs."""
    dataset = built(subject)
    for name, rows in splits(dataset):
        inputs, targets = tensors(rows)
        require(not inputs.is_complex(), f"{name} has complex inputs")
        if dataset.task == "regression":
            shape = tuple(targets.shape)
            require(targets.is_floating_point(), f"the targets of {name} are {targets.dtype}, not floats")
            require(targets.ndim == 2, f"the targets of {name} have the shape {shape}, not (N, k)")
            continue
        require(targets.dtype == torch.int64, f"the classes of {name} are {targets.dtype}, not int64")
        require(targets.ndim == 1, f"the classes of {name} have the shape {tuple(targets.shape)}, not (N,)")
        require(bool((targets >= 0).all()), f"{name} has the class {int(targets.min())}")
        require(bool((targets < (dataset.classes or 0)).all()), f"{name} has the class {int(targets.max())}")
        if name == "train" and isinstance(rows, tuple):
            absent = sorted(set(range(dataset.classes or 0)) - set(targets.tolist()))
            require(not absent, f"no training row has the class {absent[:3]}")
    return dataset.task


@CHECKS.add
def is_the_same_under_a_seed(subject: Subject) -> None:
    """Built twice under one seed it has the same rows."""
    one = built(subject)
    # Whatever was drawn in between.
    random.seed(1)
    torch.rand(3)
    other = built(subject)
    for (name, first), (_, second) in zip(splits(one), splits(other), strict=True):
        require(count(first) == count(second), f"{name} has {count(first)} rows, then {count(second)}")
        for what, mine, its in zip(("inputs", "targets"), tensors(first), tensors(second), strict=True):
            require(_same(mine, its), f"the {what} of {name} differ though the seed is the same")


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same numbers; where both have none (nan) they are the same."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


@CHECKS.add
def train_and_test_share_no_row(subject: Subject) -> str:
    """No row, input and target together, is both trained on and tested on."""
    dataset = built(subject)
    if dataset.test is None:
        raise NotApplicableError("it has no test rows")
    train, test = (set(_digests(rows)) for rows in (dataset.train, dataset.test))
    shared = len(train & test)
    demand(
        dataset,
        "train-and-test-share-no-row",
        not shared,
        f"{shared} of {len(test)} different test rows are training rows too",
    )
    return f"{len(test)} different test rows"


@CHECKS.add
def its_scale_does_not_come_from_test_rows(subject: Subject) -> str:
    """Columns are not standardised over training and test rows together."""
    dataset = built(subject)
    if dataset.test is None:
        raise NotApplicableError("it has no test rows")
    train, test = (tensors(rows)[0] for rows in (dataset.train, dataset.test))
    if not train.is_floating_point():
        raise NotApplicableError("its inputs are no floating-point numbers")
    train, test = (part.double().reshape(len(part), -1) for part in (train, test))
    leaks = _standard(torch.cat([train, test])) & ~_standard(train)
    columns = leaks.nonzero().flatten().tolist()
    said = f"column {columns[0] if columns else ''} has mean 0 and standard deviation 1 over both parts together"
    demand(dataset, "its-scale-does-not-come-from-test-rows", not columns, said)
    return "no column has mean 0 and standard deviation 1 over both"


def _standard(values: Tensor) -> Tensor:
    """For each column whether its mean is 0 and its standard deviation 1."""
    spread = torch.stack([values.std(dim=0, correction=correction) for correction in (0, 1)])
    return (values.mean(dim=0).abs() < TYPICAL) & ((spread - 1).abs() < TYPICAL).any(dim=0)


def _digests(rows: Rows) -> Iterator[bytes]:
    inputs, targets = tensors(rows)
    parts = [part.contiguous().reshape(len(part), -1).view(torch.uint8).numpy() for part in (inputs, targets)]
    for row in zip(*parts, strict=True):
        yield hashlib.blake2b(b"".join(one.tobytes() for one in row), digest_size=16).digest()
