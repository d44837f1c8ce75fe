"""What a model promises, looked at on rows of a shape that it takes."""

from __future__ import annotations

import copy
import io
import random
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from playground.conformance.checks import Checks, ConformanceError, NotApplicableError, Subject, refuses, require
from playground.engine import randomness
from playground.errors import RequestError, brief

CHECKS = Checks()

SHAPES = ((6,), (1, 28, 28), (3, 32, 32))
"""Of one row, tried in this order: numbers, and images."""

OUTPUTS = 3

ALIKE = 1e-9
"""In float64. Sums over some thousand numbers, in an order that depends on how many rows there are."""


class Sample(NamedTuple):
    """A model in float64, and rows for it: of float64 between 0 and 1, or of int64 that is 0 or 1, the tokens that are
    in every vocabulary."""

    model: nn.Module
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64

    def rows(self, count: int, seed: int = 0) -> Tensor:
        drawn = torch.rand(count, *self.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return drawn if self.dtype.is_floating_point else drawn.round().to(self.dtype)


def sample(subject: Subject, seed: int = 0) -> Sample:
    """The model for rows of the first shape that it takes, its weights drawn under a seed."""
    refusals: list[BaseException] = []
    for shape in SHAPES:
        try:
            with randomness.drawing(seed, "weights"):
                made = subject.choice.build(shape, OUTPUTS)
        except RequestError as error:
            refusals.append(error.__cause__ or error)
            continue
        require(isinstance(made, nn.Module), f"it is a {type(made).__name__}, not a torch.nn.Module")
        found = Sample(cast("nn.Module", made).double(), shape)
        tokens = found._replace(dtype=torch.int64)
        return tokens if not _takes(found) and _takes(tokens) else found
    shapes = ", ".join(map(str, SHAPES))
    last = refusals[-1]
    raise ConformanceError(f"it takes rows of none of the shapes {shapes}: {brief(last, 120)}") from last


def _takes(found: Sample) -> bool:
    """Whether a model, of which a copy is used, gets through rows of this type."""
    try:
        with torch.no_grad():
            copy.deepcopy(found.model).eval()(found.rows(2))
    except Exception:
        return False
    return True


@CHECKS.add_decisive
def is_a_model(subject: Subject) -> str:
    """It is built for rows of numbers or of images, is a torch.nn.Module, and gets through two of them."""
    found = sample(subject)
    with torch.no_grad():
        found.model.eval()(found.rows(2))
    return type(found.model).__name__


@CHECKS.add
def gives_a_row_of_outputs_for_each_row(subject: Subject) -> str:
    """For 1, 2 and 5 rows it gives as many rows of outputs, in the precision of its weights, and as many outputs as it
    is built for."""
    found = sample(subject)
    found.model.eval()
    with torch.no_grad():
        for count in (1, 2, 5):
            outputs = found.model(found.rows(count))
            require(isinstance(outputs, Tensor), f"it gives a {type(outputs).__name__}, not a tensor")
            shape = tuple(outputs.shape)
            require(shape == (count, OUTPUTS), f"for {count} rows it gives {shape}, not {(count, OUTPUTS)}")
            require(outputs.dtype == torch.float64, f"in float64 it gives {outputs.dtype}")
            require(bool(outputs.isfinite().all()), "its outputs are not finite")
        _heeds(subject, found.shape, OUTPUTS + 2, found.dtype)
        if found.shape == SHAPES[0]:
            _heeds(subject, (SHAPES[0][0] - 2,), OUTPUTS, found.dtype)
    tokens = "" if found.dtype.is_floating_point else " of int64"
    return f"{list(found.shape)}{tokens} → [{OUTPUTS}]"


def _heeds(subject: Subject, shape: tuple[int, ...], outputs: int, dtype: torch.dtype) -> None:
    """Raise ConformanceError where a model that is built for other inputs or outputs is made for the first ones."""
    try:
        made = subject.choice.build(shape, outputs).double().eval()
    except RequestError as error:
        if not refuses(error):
            raise
        # It says so, and is not for these.
        return
    what = f"built for rows of the shape {shape} and {outputs} outputs"
    try:
        found = tuple(made(Sample(made, shape, dtype).rows(2)).shape)
    except Exception as error:
        raise ConformanceError(f"{what} it does not take such rows: {brief(error, 120)}") from error
    require(found == (2, outputs), f"{what} it gives {found} for 2 rows")


@CHECKS.add
def the_gradient_reaches_every_parameter(subject: Subject) -> str:
    """Within three steps of SGD a loss has a gradient that is not zero in every parameter that is trained."""
    found = sample(subject)
    trained = {name: one for name, one in found.model.named_parameters() if one.requires_grad}
    require(bool(trained), "it has no parameter that is trained")
    optimizer = torch.optim.SGD(trained.values(), lr=0.01)
    without = set(trained)
    with randomness.drawing(0, "dropout", 0):
        # Behind a layer that starts at zero, the others are reached once it has moved.
        for _ in range(3):
            optimizer.zero_grad()
            (found.model(found.rows(16)) - 1).square().mean().backward()
            without -= {name for name, one in trained.items() if one.grad is not None and bool(one.grad.any())}
            optimizer.step()
    for name, parameter in trained.items():
        if name in without:
            require(parameter.grad is not None, f"{name} has no gradient")
            raise ConformanceError(f"the gradient of {name} is zero")
    return f"{len(trained)} tensors, {sum(one.numel() for one in trained.values()):,} numbers"


@CHECKS.add
def goes_on_from_its_state(subject: Subject) -> None:
    """Its state, saved and loaded into a model with other weights, gives the same outputs."""
    one, other = sample(subject), sample(subject, seed=1)
    with randomness.drawing(0, "dropout", 0):
        one.model(one.rows(8))
    file = io.BytesIO()
    torch.save(one.model.state_dict(), file)
    file.seek(0)
    other.model.load_state_dict(torch.load(file, weights_only=True), strict=True)
    far = _apart(one.model.eval(), other.model.eval(), one.rows(5))
    require(far == 0, f"after its state is loaded the outputs differ by {far:.3g}")


@CHECKS.add
def its_weights_depend_on_the_seed_alone(subject: Subject) -> None:
    """Built twice under one seed it has the same weights, whatever was drawn before; under another it has others, where
    they are drawn. It draws from torch's default generator, and does not seed it."""
    first = sample(subject)
    random.seed(1)
    torch.rand(3)
    second = sample(subject)
    for name, value in first.model.state_dict().items():
        require(torch.equal(value, second.model.state_dict()[name]), f"{name} differs though the seed is the same")
    other, drawn = sample(subject, seed=1), []
    for seed in (0, 1):
        with randomness.drawing(seed, "weights"):
            subject.choice.build(first.shape, OUTPUTS)
            drawn.append(torch.rand(3))
    require(not torch.equal(*drawn), "building it seeds torch's default generator")
    for name, one in first.model.named_parameters():
        # Ones, zeros and identities are not drawn, and repeat their numbers.
        random_looking = one.numel() > 8 and len(set(one.detach().flatten().tolist())) > one.numel() / 2
        same = random_looking and torch.equal(one, other.model.get_parameter(name))
        require(not same, f"{name} is drawn, and is the same under another seed")


@CHECKS.add
def evaluation_changes_nothing(subject: Subject) -> None:
    """In eval mode the same rows give the same outputs again, and no buffer changes."""
    found = sample(subject)
    found.model.eval()
    before = copy.deepcopy(found.model.state_dict())
    with torch.no_grad():
        first, second = found.model(found.rows(5)), found.model(found.rows(5))
    require(torch.equal(first, second), f"two evaluations differ by {float((first - second).abs().max()):.3g}")
    for name, value in found.model.state_dict().items():
        require(torch.equal(value, before[name]), f"an evaluation changes {name}")


@CHECKS.add
def in_evaluation_a_row_stands_for_itself(subject: Subject) -> None:
    """In eval mode the outputs of a row do not depend on the rows beside it."""
    found = sample(subject)
    found.model.eval()
    rows = found.rows(5)
    with torch.no_grad():
        together, alone = found.model(rows), torch.cat([found.model(row[None]) for row in rows])
    far = float((together - alone).abs().max())
    require(far <= ALIKE, f"the outputs of a row differ by {far:.3g} with the rows beside it")


@CHECKS.add
def a_copy_is_equal_and_shares_nothing(subject: Subject) -> None:
    """`copy.deepcopy` gives a model with the same outputs and memory of its own, as replicas need."""
    found = sample(subject)
    twin = copy.deepcopy(found.model)
    far = _apart(found.model.eval(), twin.eval(), found.rows(5))
    require(far == 0, f"the outputs of a copy differ by {far:.3g}")
    mine = {value.data_ptr(): name for name, value in found.model.state_dict().items() if value.numel()}
    for value in twin.state_dict().values():
        require(value.data_ptr() not in mine, f"a copy shares {mine.get(value.data_ptr())} with the model")


@CHECKS.add
def says_what_training_depends_on(subject: Subject) -> str:
    """Whether it draws random numbers in training, and whether a row's outputs depend on the rows beside it: then what
    is trained depends on the number of replicas."""
    found = sample(subject)
    rows, others = found.rows(6), found.rows(6, seed=1)
    model = found.model.train()
    with torch.no_grad():
        with randomness.drawing(0, "dropout", 0):
            first, second = model(rows), model(rows)
        drawing = not torch.equal(first, second)
        with randomness.drawing(0, "dropout", 0):
            beside = model(torch.cat([rows[:3], others[3:]]))
        evaluated = model.eval()(rows)
    crossing = float((first[:3] - beside[:3]).abs().max()) > ALIKE
    draws = "draws random numbers (dropout)" if drawing else "draws no random numbers"
    rows_do = "looks across rows (batch statistics)" if crossing else "rows stand for themselves"
    unlike = not drawing and not crossing and not torch.equal(first, evaluated)
    return f"{draws}; {rows_do}{'; gives other outputs in eval mode all the same' if unlike else ''}"


@CHECKS.add
def is_affine_where_it_says_so(subject: Subject) -> str:
    """Where its component says affine=True, the outputs for the mean of two rows are the mean of their outputs."""
    if not subject.choice.registration.has("affine"):
        raise NotApplicableError("its component does not say affine=True")
    if not subject.choice.is_default:
        raise NotApplicableError("affine=True is said of its defaults")
    found = sample(subject)
    one, other = found.rows(4), found.rows(4, seed=1)
    with torch.no_grad():
        model = found.model.eval()
        far = float((model((one + other) / 2) - (model(one) + model(other)) / 2).abs().max())
    require(far <= ALIKE, f"the outputs for the mean of two rows differ by {far:.3g} from the mean of their outputs")
    return ""


def _apart(one: nn.Module, other: nn.Module, rows: Tensor) -> float:
    with torch.no_grad():
        return float((one(rows) - other(rows)).abs().max())
