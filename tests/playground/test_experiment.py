"""Experiment: put together from layers of words, validated, told apart."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from playground.components import KINDS
from playground.errors import RequestError
from playground.experiment import Experiment, read
from playground.expressions import parse
from playground.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

STRANGERS = """
from playground import Backend, Data, Model, Optimizer, hookimpl


def build(*leading, **parameters):
    return leading, parameters


def wide(inputs, outputs, width: int = 1, bias: bool = True):
    return width


def named(params, name: str = "nobody", lr: float = 0.1):
    return name


def implicit(params, lr: float = 0.1, decay: float = None):
    return decay


def listed(params, sizes: list[int] = [1, 2], betas: tuple[float, float] = (0.9, 0.999)):
    return sizes, betas


def needy(params, lr: float, steps):
    return lr


@hookimpl
def playground_data():
    settings = {"model": "wide:width=7", "epochs": 6, "batch_size": 5, "eval_every": 30}
    tuned = {"model": "wide", "optimizer": "named:lr=0.5,name=tuned", "epochs": 6, "evaluate": "test"}
    return [
        Data("plain", build, default=True),
        Data("knowing", build, settings=settings),
        Data("tuned", build, settings=tuned),
    ]


@hookimpl
def playground_models():
    return [Model("wide", wide), Model("other", wide, default=True)]


@hookimpl
def playground_optimizers():
    return [
        Optimizer("open", build, default=True),
        Optimizer("named", named),
        Optimizer("implicit", implicit),
        Optimizer("listed", listed, defaults={"betas": [0, 0.5]}),
        Optimizer("filled", listed, defaults={"sizes": [5]}),
        Optimizer("needy", needy),
    ]


@hookimpl
def playground_backends():
    return [Backend("fixed", lambda: None, default=True)]
"""


@pytest.fixture(scope="module")
def builtins() -> Registry:
    """The plugins that come with the project, whatever else is installed here."""
    return Registry(
        entry_points=importlib.metadata.distribution("optim-playground").entry_points.select(group="playground")
    )


@pytest.fixture
def experiment(builtins: Registry) -> Callable[..., Experiment]:
    """An experiment of the built-in components, from layers."""
    return lambda *layers: Experiment.of(builtins, *layers)


@pytest.fixture
def strangers(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[Mapping[str, str]], None]
) -> Registry:
    """The components of one plugin that does not come with the project."""
    env = install_plugin("strangers", STRANGERS)
    in_process_plugins(env)
    return Registry(entry_points=importlib.metadata.distribution("strangers").entry_points)


def refusal(registry: Registry, *layers: Mapping[str, Any]) -> str:
    with pytest.raises(RequestError) as refused:
        Experiment.of(registry, *layers)
    message = str(refused.value)
    assert "\n" not in message
    return message


# What nobody asked for


def test_an_experiment_that_nobody_specified_is_the_book_s_on_airfoil(experiment: Callable[..., Experiment]) -> None:
    found = experiment().to_dict()
    assert {kind: found[kind]["name"] for kind in KINDS} == {
        "data": "airfoil",
        "model": "linear",
        "optimizer": "sgd",
        "backend": "single",
    }
    rest = {word: value for word, value in found.items() if word not in KINDS}
    assert rest == {
        "epochs": 4,
        "steps": None,
        "batch_size": 10,
        "seed": 0,
        "eval_every": 200,
        "evaluate": None,
        "dtype": "float32",
    }
    assert found["optimizer"]["lr"] == 0.01


def test_no_layers_an_empty_one_and_one_that_says_nothing_are_alike(experiment: Callable[..., Experiment]) -> None:
    unsaid = {"data": None, "lr": None, "devices": None, "epochs": None, "eval_every": None}
    assert experiment().to_dict() == experiment({}).to_dict() == experiment({}, unsaid).to_dict()


def test_an_optimizer_brings_its_own_learning_rate(experiment: Callable[..., Experiment]) -> None:
    rates = {
        name: experiment({"optimizer": name}).optimizer.parameters["lr"] for name in ("sgd", "momentum", "adagrad")
    }
    assert rates == {"sgd": 0.01, "momentum": 0.005, "adagrad": 0.1}


# Layers


def test_a_later_layer_beats_an_earlier_one_word_by_word(experiment: Callable[..., Experiment]) -> None:
    file = {"epochs": 7, "seed": 3, "dtype": "float64", "model": "mlp:hidden=[8]"}
    found = experiment(file, {"epochs": 9, "seed": None, "batch_size": 2})
    assert (found.epochs, found.seed, found.batch_size, found.dtype) == (9, 3, 2, "float64")
    assert found.model.parameters["hidden"] == (8,)


def test_words_may_have_hyphens_as_flags_do(experiment: Callable[..., Experiment]) -> None:
    found = experiment({"batch-size": 3, "eval-every": 50})
    assert (found.batch_size, found.eval_every) == (3, 50)


@pytest.mark.parametrize(
    "file",
    [
        {"optimizer": "sgd", "lr": 0.5},
        {"optimizer": "sgd:lr=0.5,momentum=0.9"},
        {"optimizer": {"name": "sgd", "lr": 0.5}},
        {"optimizer": "adam:lr=0.5"},
        {"lr": 0.5},
    ],
)
@pytest.mark.parametrize("flag", ["adam", {"name": "adam"}, "optim-playground/adam"])
def test_an_optimizer_of_a_flag_does_not_inherit_the_learning_rate_of_the_file(
    experiment: Callable[..., Experiment], file: dict[str, Any], flag: Any
) -> None:
    found = experiment(file, {"optimizer": flag})
    assert found.identity == experiment({"optimizer": "adam"}).identity
    assert found.optimizer.parameters["lr"] == 0.01


def test_without_an_optimizer_of_a_flag_the_file_s_stays_with_all_its_parameters(
    experiment: Callable[..., Experiment],
) -> None:
    found = experiment({"optimizer": "sgd:momentum=0.9", "lr": 0.5}, {"epochs": 1})
    assert found.optimizer.asked == {"momentum": 0.9, "lr": 0.5}


@pytest.mark.parametrize(
    "file", [{"optimizer": "adam", "lr": 0.5}, {"optimizer": "adam:lr=0.5"}, {"optimizer": {"name": "adam", "lr": 0.5}}]
)
def test_a_learning_rate_of_a_flag_beats_the_file_s_however_the_file_says_it(
    experiment: Callable[..., Experiment], file: dict[str, Any]
) -> None:
    found = experiment(file, {"lr": 0.25})
    assert (found.optimizer.name, found.optimizer.asked) == ("adam", {"lr": 0.25})


def test_a_learning_rate_without_an_optimizer_is_the_default_optimizer_s(experiment: Callable[..., Experiment]) -> None:
    found = experiment({"lr": 1})
    assert (found.optimizer.name, found.optimizer.asked) == ("sgd", {"lr": 1.0})


def test_devices_are_the_backend_s(experiment: Callable[..., Experiment]) -> None:
    assert experiment({"backend": "manual:reduce=ring", "devices": "cpu,cpu"}).backend.asked == {
        "reduce": "ring",
        "devices": "cpu,cpu",
    }
    assert experiment({"backend": "manual:devices=3"}, {"devices": 2}).backend.asked == {"devices": 2}
    assert experiment({"backend": "manual:devices=3"}, {"backend": "manual"}).backend.asked == {}
    assert experiment({"devices": 1}).backend.name == "single"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"optimizer": "adam:lr=0.1", "lr": 0.1}, "'lr' is given twice: by itself and in optimizer 'adam'"),
        ({"lr": 0.1, "optimizer": {"name": "sgd", "lr": 1}}, "'lr' is given twice: by itself and in optimizer 'sgd'"),
        ({"backend": "manual:devices=2", "devices": 3}, "'devices' is given twice: by itself and in backend 'manual'"),
    ],
)
def test_a_word_that_one_layer_says_twice_is_refused(builtins: Registry, layer: dict[str, Any], message: str) -> None:
    assert refusal(builtins, layer) == message


def test_one_word_in_two_spellings_is_said_twice(builtins: Registry) -> None:
    assert "'batch" in refusal(builtins, {"batch-size": 5, "batch_size": 6})


# The settings that a data set asks for


def test_data_says_what_suits_it_where_the_user_says_nothing(strangers: Registry) -> None:
    found = Experiment.of(strangers, {"data": "knowing"})
    assert (found.epochs, found.batch_size, found.eval_every) == (6, 5, 30)
    assert (found.model.name, found.model.parameters) == ("wide", {"width": 7, "bias": True})


def test_data_that_says_nothing_leaves_the_defaults(strangers: Registry) -> None:
    found = Experiment.of(strangers, {"data": "plain"})
    assert (found.epochs, found.batch_size, found.eval_every) == (4, 10, None)
    assert (found.model.name, found.model.parameters) == ("other", {"width": 1, "bias": True})


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"epochs": 1}, (1, 5, 30, "wide", 7)),
        ({"batch_size": 2}, (6, 2, 30, "wide", 7)),
        ({"eval_every": 9}, (6, 5, 9, "wide", 7)),
        ({"model": "other"}, (6, 5, 30, "other", 1)),
        ({"model": "wide"}, (6, 5, 30, "wide", 1)),
        ({"model": "wide:width=3"}, (6, 5, 30, "wide", 3)),
    ],
)
def test_what_the_user_says_beats_what_the_data_asks_for(
    strangers: Registry, layer: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    for layers in ([{"data": "knowing", **layer}], [layer, {"data": "knowing"}]):
        found = Experiment.of(strangers, *layers)
        width = found.model.parameters["width"]
        assert (found.epochs, found.batch_size, found.eval_every, found.model.name, width) == expected


def test_data_may_say_which_optimizer_suits_it_and_which_rows_to_evaluate(strangers: Registry) -> None:
    found = Experiment.of(strangers, {"data": "tuned"})
    assert (found.optimizer.name, found.optimizer.asked) == ("named", {"lr": 0.5, "name": "tuned"})
    assert (found.epochs, found.evaluate) == (6, ("test",))


@pytest.mark.parametrize("layers", [[{"data": "tuned", "lr": 0.25}], [{"data": "tuned"}, {"lr": 0.25}]], ids=str)
def test_a_learning_rate_alone_changes_that_of_the_optimizer_that_suits_the_data(
    strangers: Registry, layers: list[dict[str, Any]]
) -> None:
    found = Experiment.of(strangers, *layers)
    assert (found.optimizer.name, found.optimizer.asked) == ("named", {"lr": 0.25, "name": "tuned"})


def test_to_name_an_optimizer_drops_the_one_that_suits_the_data_and_its_learning_rate(strangers: Registry) -> None:
    another = Experiment.of(strangers, {"data": "tuned", "optimizer": "implicit"})
    assert (another.optimizer.name, another.optimizer.parameters) == ("implicit", {"lr": 0.1, "decay": None})
    # Also where it is of the same name.
    same = Experiment.of(strangers, {"data": "tuned", "optimizer": "named"})
    assert (same.optimizer.name, same.optimizer.asked) == ("named", {})


def test_what_the_user_evaluates_beats_what_the_data_asks_for(strangers: Registry) -> None:
    assert Experiment.of(strangers, {"data": "tuned", "evaluate": "train"}).evaluate == ("train",)


# Steps in the place of epochs


def test_a_run_of_so_many_steps_has_no_number_of_epochs(experiment: Callable[..., Experiment]) -> None:
    found = experiment({"steps": 7})
    assert (found.steps, found.epochs) == (7, None)
    assert (found.to_dict()["steps"], found.to_dict()["epochs"]) == (7, None)


@pytest.mark.parametrize("data", ["knowing", "plain"])
@pytest.mark.parametrize(
    ("layers", "epochs", "steps"),
    [
        ([{"epochs": 3}, {"steps": 7}], None, 7),
        ([{"steps": 7}, {"epochs": 3}], 3, None),
        ([{"steps": 7}, {"seed": 1}], None, 7),
        ([{"epochs": 3}, {"steps": None}], 3, None),
        ([{"steps": 7}, {"steps": 8, "epochs": None}], None, 8),
        ([{"epochs": 3}, {"steps": 7}, {"epochs": 2}], 2, None),
    ],
    ids=str,
)
def test_of_steps_and_epochs_the_one_that_is_said_last_counts_whatever_suits_the_data(
    strangers: Registry, data: str, layers: list[dict[str, Any]], epochs: int | None, steps: int | None
) -> None:
    found = Experiment.of(strangers, {"data": data}, *layers)
    assert (found.epochs, found.steps) == (epochs, steps)


@pytest.mark.parametrize("layers", [[{"epochs": 3, "steps": 7}], [{"epochs": 3, "steps": 7}, {"steps": 8}]], ids=str)
def test_steps_and_epochs_in_one_layer_are_refused(builtins: Registry, layers: list[dict[str, Any]]) -> None:
    assert refusal(builtins, *layers) == ("a run ends after so many epochs or after so many steps; give one of the two")


# The rows that are evaluated


@pytest.mark.parametrize(
    ("said", "splits"),
    [
        ("train", ("train",)),
        ("test", ("test",)),
        ("train,test", ("train", "test")),
        ("test, train", ("train", "test")),
        ("test,test", ("test",)),
        (["test"], ("test",)),
        (["test", "train"], ("train", "test")),
        (("test", "train", "test"), ("train", "test")),
    ],
    ids=str,
)
def test_the_splits_to_evaluate_are_a_word_or_a_list_in_any_order(
    experiment: Callable[..., Experiment], said: Any, splits: tuple[str, ...]
) -> None:
    found = experiment({"evaluate": said})
    assert found.evaluate == splits
    assert found.to_dict()["evaluate"] == list(splits)
    assert found.identity == experiment({"evaluate": list(splits)}).identity


@pytest.mark.parametrize(
    "value",
    ["", "tset", "Test", "train;test", "train,", "train,,test", "none", [], (), ["train", 1], [["test"]], 1, True],
)
def test_splits_that_there_are_not_are_refused(builtins: Registry, value: Any) -> None:
    assert refusal(builtins, {"evaluate": value}) == f"evaluate must be train or test, or both, not {value!r}"


# What is refused


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"optimizer": "adagrd"}, "unknown optimizer 'adagrd'; did you mean 'adagrad'?"),
        ({"data": "airfiol:rows=5"}, "unknown data 'airfiol'; did you mean 'airfoil'?"),
        ({"backend": {"name": "manuel"}}, "unknown backend 'manuel'; did you mean 'manual'?"),
        ({"model": "zzz"}, "unknown model 'zzz'; there are: lenet, linear, mlp, resnet18"),
        ({"optimizer": "adam:beta=1"}, "optimizer 'adam' has no parameter 'beta'; did you mean 'betas'?"),
        ({"optimizer": {"name": "adam", "epsilon": 1}}, "optimizer 'adam' has no parameter 'epsilon'"),
        ({"model": "linear:x=1"}, "model 'linear' has no parameter 'x'; it has: bias"),
        ({"optimizer": "adam:params=1"}, "optimizer 'adam' has no parameter 'params'"),
        ({"optimiser": "adam"}, "an experiment has no 'optimiser'; did you mean 'optimizer'?"),
        ({"batchsize": 5}, "an experiment has no 'batchsize'; did you mean 'batch_size'?"),
        ({"epoch": 5}, "an experiment has no 'epoch'; did you mean 'epochs'?"),
    ],
)
def test_what_is_not_there_is_refused_with_a_suggestion(
    builtins: Registry, layer: dict[str, Any], message: str
) -> None:
    assert refusal(builtins, layer).startswith(message)


def test_a_word_like_no_other_is_refused_with_all_that_there_are(builtins: Registry) -> None:
    assert refusal(builtins, {"zzz": 1}) == (
        "an experiment has no 'zzz'; it has: data, model, optimizer, backend, epochs, steps, batch_size, seed, "
        "eval_every, evaluate, dtype, lr, devices"
    )


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"data": "airfoil:rows=1.5"}, "data 'airfoil': rows must be int | none, not 1.5"),
        ({"data": {"name": "airfoil", "rows": "5"}}, "data 'airfoil': rows must be int | none, not '5'"),
        ({"data": "airfoil:path=5"}, "data 'airfoil': path must be str | none, not 5"),
        ({"model": "mlp:hidden=8"}, "model 'mlp': hidden must be tuple[int, ...], not 8"),
        ({"model": "mlp:hidden=[8, x]"}, "model 'mlp': hidden must be tuple[int, ...], not [8, 'x']"),
        ({"model": "mlp:dropout=true"}, "model 'mlp': dropout must be float, not True"),
        ({"model": "linear:bias=1"}, "model 'linear': bias must be bool, not 1"),
        ({"backend": "manual:reduce=tree"}, "backend 'manual': reduce must be star | ring, not 'tree'"),
        ({"backend": "manual", "devices": 1.5}, "backend 'manual': devices must be int | str | list[str], not 1.5"),
        ({"optimizer": "sgd:momentum=x"}, "optimizer 'sgd': momentum must be float, not 'x'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_both_types(
    builtins: Registry, layer: dict[str, Any], message: str
) -> None:
    assert refusal(builtins, layer) == message


@pytest.mark.parametrize("value", [0, -1, 1.0, 1.5, True, "4", [4], math.inf, math.nan])
@pytest.mark.parametrize("word", ["epochs", "steps", "batch_size", "eval_every"])
def test_epochs_steps_batch_size_and_evaluation_interval_are_whole_numbers_from_1(
    builtins: Registry, word: str, value: Any
) -> None:
    name = word.replace("_", "-")
    assert refusal(builtins, {word: value}) == f"{name} must be a whole number, 1 or more, not {value!r}"


@pytest.mark.parametrize("value", [-1, 0.0, False, "0", [0], math.nan])
def test_a_seed_is_a_whole_number_from_0(builtins: Registry, value: Any) -> None:
    assert refusal(builtins, {"seed": value}) == f"seed must be a whole number, 0 or more, not {value!r}"


@pytest.mark.parametrize(
    "layer", [{"epochs": 1}, {"steps": 1}, {"batch_size": 1}, {"eval_every": 1}, {"seed": 0}, {"seed": 2**63}]
)
def test_the_ends_of_a_range_are_allowed(experiment: Callable[..., Experiment], layer: dict[str, int]) -> None:
    ((word, value),) = layer.items()
    assert getattr(experiment(layer), word) == value


@pytest.mark.parametrize("value", [0, 0.0, -0.1, -5, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("said", ["by itself", "in an expression", "in a table"])
def test_a_learning_rate_is_positive_and_finite_however_it_is_said(builtins: Registry, value: float, said: str) -> None:
    layer: dict[str, Any] = {
        "by itself": {"lr": value},
        "in an expression": {"optimizer": f"adam:lr={value}"},
        "in a table": {"optimizer": {"name": "adam", "lr": value}},
    }[said]
    assert refusal(builtins, layer) == f"lr must be a positive, finite number, not {float(value)!r}"


@pytest.mark.parametrize("value", [True, "0.1", None, [0.1]])
def test_a_learning_rate_is_a_number(builtins: Registry, value: Any) -> None:
    message = refusal(builtins, {"optimizer": {"name": "sgd", "lr": value}})
    assert message.startswith("optimizer 'sgd': lr must be float")
    assert message.endswith(f"not {value!r}")


def test_a_learning_rate_that_no_float_holds_is_refused(builtins: Registry) -> None:
    assert refusal(builtins, {"lr": 10**400}).startswith("optimizer 'sgd': lr must be float")


@pytest.mark.parametrize("value", ["float16", "Float32", "double", 64, True, ["float32"]])
def test_a_precision_that_there_is_not_is_refused_with_those_that_there_are(builtins: Registry, value: Any) -> None:
    assert refusal(builtins, {"dtype": value}).startswith(f"dtype must be float32 or float64, not {value!r}")


@pytest.mark.parametrize("value", [5, True, ["adam"], {}, {"lr": 0.1}, {"name": 5}, {"name": None}])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_component_is_an_expression_or_a_table_with_a_name(builtins: Registry, kind: str, value: Any) -> None:
    assert refusal(builtins, {kind: value}) == (
        f"{kind} must be an expression (NAME:KEY=VALUE) or a table with a name, not {value!r}"
    )


def test_a_malformed_expression_is_refused(builtins: Registry) -> None:
    assert "'lr' is not of the form KEY=VALUE" in refusal(builtins, {"optimizer": "adam:lr"})


def test_a_parameter_that_must_be_given_is_asked_for(strangers: Registry) -> None:
    assert refusal(strangers, {"optimizer": "needy"}) == "optimizer 'needy' needs a value for lr, steps"
    assert refusal(strangers, {"optimizer": "needy", "lr": 1}) == "optimizer 'needy' needs a value for steps"
    assert Experiment.of(strangers, {"optimizer": "needy:lr=1,steps=x"}).optimizer.asked == {"lr": 1.0, "steps": "x"}


def test_a_shortcut_that_its_component_does_not_know_is_refused(strangers: Registry) -> None:
    assert refusal(strangers, {"devices": 2}) == "backend 'fixed' has no parameter 'devices'; it has: none"


# The experiment file


def test_a_file_is_read_in_the_words_of_an_experiment(tmp_path: Path, experiment: Callable[..., Experiment]) -> None:
    file = tmp_path / "experiment.toml"
    file.write_bytes(
        b'# An experiment\r\nmodel = "mlp:hidden=[8, 4]"\r\nlr = 1\r\nbatch-size = 5\r\n'
        b'[optimizer]\r\nname = "adam"\r\nbetas = [0.5, 0.75]\r\n'
        b'[backend]\r\nname = "manual"\r\ndevices = ["cpu", "cpu"]\r\n'
    )
    found = experiment(read(file))
    assert found.model.asked == {"hidden": (8, 4)}
    assert found.optimizer.asked == {"betas": (0.5, 0.75), "lr": 1.0}
    assert found.backend.asked == {"devices": ["cpu", "cpu"]}
    assert (found.batch_size, found.epochs) == (5, 4)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"epochs = \nseed = 1\n", "line 1"),
        (b'epochs = 1\noptimizer = "adam\n', "line 2"),
        (b"epochs = 1\nepochs = 2\n", "line 2"),
        (b"\xff\xfe\x00", "utf-8"),
        (b'model = "\xe9"', "utf-8"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, ""),
        (b"epochs = " + b"9" * 5000, ""),
    ],
    ids=["no value", "open quotation", "a word twice", "UTF-16", "Latin-1", "deep", "a number of 5000 digits"],
)
def test_a_file_that_is_not_toml_is_refused_with_its_name_and_the_place(
    tmp_path: Path, content: bytes, wrong: str
) -> None:
    file = tmp_path / "experiment.toml"
    file.write_bytes(content)
    with pytest.raises(RequestError) as refused:
        read(file)
    message = str(refused.value)
    assert message.startswith(f"the experiment file {file} is not TOML: ")
    assert wrong in message


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refused:
        read(tmp_path / "absent.toml")
    assert (
        str(refused.value) == f"cannot read the experiment file {tmp_path / 'absent.toml'}: No such file or directory"
    )
    with pytest.raises(RequestError) as refused:
        read(tmp_path)
    assert str(refused.value) == f"cannot read the experiment file {tmp_path}: Is a directory"


# What an experiment says of itself


def every_component() -> list[tuple[str, str]]:
    points = importlib.metadata.distribution("optim-playground").entry_points.select(group="playground")
    return [(one.kind, one.name) for one in Registry(entry_points=points).components]


@pytest.mark.parametrize(("kind", "name"), every_component())
def test_an_experiment_with_any_component_is_made_again_from_its_own_words(
    experiment: Callable[..., Experiment], kind: str, name: str
) -> None:
    made = experiment({kind: name})
    again = experiment(made.to_dict())
    assert again.to_dict() == made.to_dict()
    assert again.identity == made.identity
    # As run.json keeps them.
    kept = experiment(json.loads(json.dumps(made.to_dict())))
    assert kept.to_dict() == made.to_dict()
    assert kept.identity == made.identity


@pytest.mark.parametrize(
    "layer",
    [
        {"model": "mlp:hidden=[3, 4],activation=tanh,dropout=0.5,batch_norm=true", "seed": 2**63},
        {"data": 'airfoil:path="a, b=[c].dat",holdout=0.2,seed=5', "dtype": "float64", "eval_every": 1},
        {"data": "linear-regression:weights=[1, 2.5, -3],bias=-1,noise=0.1", "epochs": 1, "batch_size": 1},
        {"backend": "manual:reduce=ring,devices=[cpu, cpu]", "optimizer": "adam:betas=[0, 0.5]"},
        {"backend": "manual", "devices": "cpu,cpu", "lr": 3},
        {"backend": "manual", "devices": 3},
        {"steps": 7},
        {"evaluate": "test"},
        {"steps": 7, "evaluate": ["test", "train"]},
    ],
)
def test_an_experiment_with_parameters_is_made_again_from_its_own_words(
    experiment: Callable[..., Experiment], layer: dict[str, Any]
) -> None:
    made = experiment(layer)
    for words in (made.to_dict(), json.loads(json.dumps(made.to_dict()))):
        again = experiment(words)
        assert again.to_dict() == made.to_dict()
        assert again.identity == made.identity


@pytest.mark.parametrize(
    "layer",
    [
        {"optimizer": "open:a=1,b=[x, none, 0.5],c={d = true}"},
        {"optimizer": "listed"},
        # A default that its own hint does not allow.
        {"optimizer": "implicit"},
        # A parameter of the name by which tables call the component.
        {"optimizer": "named:name=somebody"},
        {"optimizer": "open:name=somebody"},
        {"data": "knowing"},
    ],
    ids=str,
)
def test_an_experiment_with_a_stranger_s_component_is_made_again_from_its_own_words(
    strangers: Registry, layer: dict[str, Any]
) -> None:
    made = Experiment.of(strangers, layer)
    again = Experiment.of(strangers, made.to_dict())
    assert again.to_dict() == made.to_dict()
    assert again.identity == made.identity
    assert again.optimizer.parameters == made.optimizer.parameters


def test_words_of_an_experiment_can_be_the_ground_for_another(experiment: Callable[..., Experiment]) -> None:
    made = experiment({"optimizer": "adam:lr=0.5,eps=0.125", "seed": 3})
    assert (
        experiment(made.to_dict(), {"lr": 0.25}).identity
        == experiment({"optimizer": "adam:lr=0.25,eps=0.125", "seed": 3}).identity
    )
    assert (
        experiment(made.to_dict(), {"optimizer": "adam"}).identity
        == experiment({"optimizer": "adam", "seed": 3}).identity
    )


def test_a_choice_is_written_as_an_expression_of_what_was_asked_for(experiment: Callable[..., Experiment]) -> None:
    choice = experiment({"optimizer": {"name": "adam", "betas": [0, 0.5]}, "lr": 1})["optimizer"]
    assert str(choice) == "adam:betas=[0.0, 0.5],lr=1.0"
    assert parse(str(choice)) == ("adam", {"betas": [0.0, 0.5], "lr": 1.0})
    assert str(experiment()["data"]) == "airfoil"


# Identity


@pytest.mark.parametrize(
    "layer",
    [
        {"optimizer": "adam:lr=0.5"},
        {"optimizer": "adam", "lr": 0.5},
        {"lr": 0.5, "optimizer": {"name": "adam"}},
        {"optimizer": {"lr": 0.5, "name": "adam"}},
        {"optimizer": "optim-playground/adam:lr=.5"},
        {"optimizer": "optimizers/adam:lr=5e-1"},
        {"optimizer": "adam:betas=[0.9, 0.999],lr=0.5,foreach=none", "seed": 0, "epochs": 4, "dtype": "float32"},
        {"optimizer": "adam:weight_decay=0,lr=0.5", "data": "airfoil", "backend": "single:devices=auto"},
    ],
    ids=str,
)
def test_the_same_experiment_has_one_identity_however_it_is_said(
    experiment: Callable[..., Experiment], layer: dict[str, Any]
) -> None:
    assert experiment(layer).identity == experiment({"optimizer": "adam:lr=0.5"}).identity


def test_experiments_that_differ_in_anything_have_identities_that_differ(experiment: Callable[..., Experiment]) -> None:
    layers: list[dict[str, Any]] = [
        {},
        {"data": "linear-regression"},
        {"data": "airfoil:rows=1500"},
        {"data": "airfoil:holdout=0.5"},
        {"data": "airfoil:seed=1"},
        {"data": "airfoil:path=a"},
        {"data": "airfoil:path=b"},
        {"model": "linear:bias=false"},
        {"model": "mlp"},
        {"model": "mlp:hidden=[]"},
        {"model": "mlp:hidden=[3, 4]"},
        {"model": "mlp:hidden=[4, 3]"},
        {"optimizer": "adam"},
        {"optimizer": "adamw"},
        {"optimizer": "adam:lr=0.02"},
        {"optimizer": "adam:lr=0.020000000000000004"},
        {"optimizer": "adam:foreach=true"},
        {"optimizer": "adam:foreach=false"},
        {"optimizer": "adam:betas=[0.9, 0.99]"},
        {"optimizer": "momentum"},
        {"optimizer": "sgd:lr=0.005,momentum=0.9"},
        {"backend": "manual"},
        {"backend": "manual", "devices": 2},
        {"backend": "manual", "devices": "cpu,cpu"},
        {"backend": "manual:reduce=ring"},
        {"epochs": 5},
        {"steps": 5},
        # As many as the epochs have.
        {"steps": 600},
        {"batch_size": 11},
        {"seed": 1},
        {"eval_every": 201},
        {"evaluate": "train"},
        {"evaluate": "test"},
        {"evaluate": "train,test"},
        {"dtype": "float64"},
    ]
    identities = [experiment(layer).identity for layer in layers]
    for (left, one), (right, other) in itertools.combinations(zip(layers, identities, strict=True), 2):
        assert one != other, f"{left} and {right}"


def test_another_plugin_with_a_component_of_the_same_name_does_not_change_an_identity(
    builtins: Registry,
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[[Mapping[str, str]], None],
) -> None:
    source = (
        "from playground import Optimizer, hookimpl\n\n\n@hookimpl\ndef playground_optimizers():\n"
        "    return [Optimizer('adam', 'torch.optim:Adam')]\n"
    )
    in_process_plugins(install_plugin("another-adam", source))
    points = [
        *importlib.metadata.distribution("optim-playground").entry_points.select(group="playground"),
        *importlib.metadata.distribution("another-adam").entry_points,
    ]
    layer = {"optimizer": "optim-playground/adam"}
    assert Experiment.of(Registry(entry_points=points), layer).identity == Experiment.of(builtins, layer).identity


# What the factory gets


def test_a_factory_gets_what_was_asked_for_in_the_types_of_its_signature(strangers: Registry) -> None:
    assert Experiment.of(strangers, {"optimizer": "listed:sizes=[3],betas=[1, 0]"}).optimizer.build([]) == (
        [3],
        (1.0, 0.0),
    )
    assert Experiment.of(strangers, {"optimizer": "open:a=1"}).optimizer.build("params") == (("params",), {"a": 1})


def test_a_factory_gets_the_defaults_of_its_component_as_the_experiment_says_them(strangers: Registry) -> None:
    choice = Experiment.of(strangers, {"optimizer": "listed"}).optimizer
    assert choice.parameters["betas"] == (0.0, 0.5)
    assert choice.build([]) == ([1, 2], (0.0, 0.5))


@pytest.mark.parametrize("expression", ["filled", "listed:sizes=[3, 4]"])
def test_a_factory_that_changes_what_it_gets_does_not_change_the_experiment(
    strangers: Registry, expression: str
) -> None:
    choice = Experiment.of(strangers, {"optimizer": expression}).optimizer
    before = json.dumps(choice.parameters)
    sizes, _ = choice.build([])
    sizes.append(99)
    assert json.dumps(choice.parameters) == before
    assert 99 not in choice.build([])[0]
