"""`playground show`: one component with its parameters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import playground

if TYPE_CHECKING:
    from collections.abc import Callable

EXPECTED: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {
    ("data", "airfoil"): {
        "rows": ("int | none", None),
        "holdout": ("float", 0.0),
        "path": ("str | none", None),
        "seed": ("int", 0),
    },
    ("data", "linear-regression"): {
        "rows": ("int", 200),
        "weights": ("tuple[float, ...]", [5.2, 9.6]),
        "bias": ("float", 3.4),
        "noise": ("float", 0.0),
        "seed": ("int", 0),
    },
    ("model", "linear"): {"bias": ("bool", True)},
    ("model", "mlp"): {
        "hidden": ("tuple[int, ...]", [64]),
        "activation": ("relu | tanh | sigmoid | gelu | silu", "relu"),
        "dropout": ("float", 0.0),
        "batch_norm": ("bool", False),
    },
    ("backend", "single"): {"devices": ("int | str | list[str]", "auto")},
    ("backend", "manual"): {
        "devices": ("int | str | list[str]", "auto"),
        "reduce": ("star | ring", "star"),
        "concurrency": ("auto | threads | turns", "auto"),
    },
}
"""The factories that the project writes itself: their parameters with types and defaults."""

IDS = ["-".join(key) for key in EXPECTED]

DEFAULTS = [
    ("sgd", "lr", 0.01),
    ("momentum", "lr", 0.005),
    ("momentum", "momentum", 0.9),
    ("adagrad", "lr", 0.1),
    ("rmsprop", "lr", 0.01),
    ("rmsprop", "alpha", 0.9),
    ("adam", "lr", 0.01),
    ("adam", "betas", [0.9, 0.999]),
    ("adamw", "lr", 0.001),
]

THIRD_PARTY = '''
from playground import Data, Model, Optimizer, hookimpl

def typed(params, lr: float = 0.5, *, decay: float, limit: float = float("inf")):
    """Steps.

    :param lr: how far to go
    :param decay: how fast to tire
    """

def untyped(params, lr=0.5, steps=[1, 2]):
    pass

def load():
    pass

def __getattr__(name):
    if name != "late":
        raise AttributeError(name)
    print("I am imported at last")
    return typed

def lost():
    raise OSError("the disk is gone")

@hookimpl
def playground_optimizers():
    return [
        Optimizer("typed", typed, summary="Typed"),
        Optimizer("untyped", untyped),
        Optimizer("nowhere", "optim_third.missing:Nothing"),
        Optimizer("chatty", "optim_third:late"),
    ]

@hookimpl
def playground_models():
    return [Model("bare", lambda inputs, outputs: None)]

@hookimpl
def playground_data():
    return [Data("lost", load, path=lost)]
'''


def strict(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def third_party(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> None:
    in_process_plugins(install_plugin("optim-third", THIRD_PARTY, "third"))


# As JSON


@pytest.mark.parametrize(("kind", "name"), EXPECTED, ids=IDS)
def test_json_gives_every_parameter_with_its_type_default_and_help(
    call: Callable[..., Any], kind: str, name: str
) -> None:
    found = strict(call("show", kind, name, "--json").out)
    parameters = {one["name"]: one for one in found["parameters"]}
    assert {key: (one["type"], one["default"]) for key, one in parameters.items()} == EXPECTED[kind, name]
    for one in parameters.values():
        assert one.keys() == {"name", "type", "default", "required", "help"}
        assert one["required"] is False
        assert one["help"]


@pytest.mark.parametrize(("kind", "name"), [*EXPECTED, ("optimizer", "adagrad")])
def test_json_says_which_plugin_provides_the_component(call: Callable[..., Any], kind: str, name: str) -> None:
    found = strict(call("show", kind, name, "--json").out)
    assert (found["kind"], found["name"]) == (kind, name)
    assert (found["distribution"], found["version"]) == ("optim-playground", playground.__version__)
    assert found["plugin"] == (kind if kind == "data" else f"{kind}s")
    assert re.fullmatch(r"[\w.]+:[\w.]+", found["factory"])
    assert found["summary"]


@pytest.mark.parametrize(("name", "parameter", "default"), DEFAULTS)
def test_the_default_that_is_shown_is_the_components_and_not_torchs(
    call: Callable[..., Any], name: str, parameter: str, default: Any
) -> None:
    found = strict(call("show", "optimizer", name, "--json").out)
    assert {one["name"]: one["default"] for one in found["parameters"]}[parameter] == default


@pytest.mark.parametrize("name", ["adagrad", "adam", "momentum", "muon", "lbfgs"])
def test_the_help_of_torchs_own_parameters_names_no_other_default_and_is_whole(
    call: Callable[..., Any], name: str
) -> None:
    parameters = strict(call("show", "optimizer", name, "--json").out)["parameters"]
    assert all(one["help"] for one in parameters if one["name"] in ("lr", "betas", "weight_decay", "momentum", "eps"))
    for one in parameters:
        assert "(default:" not in one["help"]
        assert one["help"].count("(") == one["help"].count(")"), one["help"]


def test_the_licence_and_doi_of_airfoil_are_shown(call: Callable[..., Any]) -> None:
    origin = strict(call("show", "data", "airfoil", "--json").out)["origin"]
    for word in ("Brooks, Pope and Marcolini", "UCI Machine Learning Repository", "10.24432/C5VW2C", "CC BY 4.0"):
        assert word in origin
    assert origin in call("show", "data", "airfoil").out


# As text


@pytest.mark.parametrize(("kind", "name"), EXPECTED, ids=IDS)
def test_the_text_says_all_that_the_json_says(call: Callable[..., Any], kind: str, name: str) -> None:
    found, done = strict(call("show", kind, name, "--json").out), call("show", kind, name)
    assert done.code == 0
    assert done.err == ""
    for key in ("kind", "name", "summary", "plugin", "distribution", "version", "factory"):
        assert re.search(rf"^{key} +{re.escape(found[key])}$", done.out, re.MULTILINE)
    for one in found["parameters"]:
        (line,) = [
            line for line in done.out.splitlines() if re.match(rf"{one['name']} .*{re.escape(one['type'])}", line)
        ]
        assert one["help"] in line


@pytest.mark.parametrize(
    ("kind", "name", "row"),
    [
        ("data", "airfoil", r"rows +int \| none +none "),
        ("data", "linear-regression", r"weights +tuple\[float, \.\.\.\] +\[5\.2, 9\.6\] "),
        ("model", "mlp", r"batch_norm +bool +false "),
        ("optimizer", "adam", r"betas +tuple\[.*\] +\[0\.9, 0\.999\] "),
        ("backend", "manual", r"devices +int \| str \| list\[str\] +auto "),
    ],
)
def test_a_default_is_shown_as_it_would_be_written_in_an_expression(
    call: Callable[..., Any], kind: str, name: str, row: str
) -> None:
    assert re.search(f"^{row}", call("show", kind, name).out, re.MULTILINE)


# Third parties


@pytest.mark.usefixtures("third_party")
def test_a_parameter_without_a_default_is_shown_as_needed(call: Callable[..., Any]) -> None:
    found = json.loads(call("show", "optimizer", "typed", "--json").out)
    decay = next(one for one in found["parameters"] if one["name"] == "decay")
    assert decay == {
        "name": "decay",
        "type": "float",
        "default": None,
        "required": True,
        "help": "how fast to tire",
    }
    text = call("show", "optimizer", "typed").out
    assert re.search(r"^decay +float +\(needed\) +how fast to tire$", text, re.MULTILINE)


@pytest.mark.usefixtures("third_party")
def test_a_parameter_without_a_type_is_shown_and_takes_any_value(call: Callable[..., Any]) -> None:
    done = call("show", "optimizer", "untyped", "--json")
    assert done.code == 0, done.err
    parameters = {one["name"]: one for one in strict(done.out)["parameters"]}
    assert (parameters["lr"]["type"], parameters["lr"]["default"]) == ("any value", 0.5)
    assert parameters["steps"]["default"] == [1, 2]


@pytest.mark.usefixtures("third_party")
def test_a_default_that_json_cannot_say_leaves_the_json_valid(call: Callable[..., Any]) -> None:
    found = strict(call("show", "optimizer", "typed", "--json").out)
    assert [one["name"] for one in found["parameters"]] == ["lr", "decay", "limit"]


@pytest.mark.usefixtures("third_party")
def test_a_component_without_parameters_says_so(call: Callable[..., Any]) -> None:
    assert call("show", "model", "bare").out.endswith("It has no parameters.\n")
    assert strict(call("show", "model", "bare", "--json").out)["parameters"] == []


@pytest.mark.usefixtures("third_party")
def test_a_factory_that_is_not_there_is_an_error_that_names_the_component_the_plugin_and_the_cause(
    call: Callable[..., Any],
) -> None:
    done = call("show", "optimizer", "nowhere")
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: optimizer 'nowhere' (plugin optim-third/third 1.2.3) cannot be loaded: ")
    assert "optim_third.missing" in line


@pytest.mark.usefixtures("third_party")
def test_what_a_factorys_module_prints_does_not_spoil_the_json(call: Callable[..., Any]) -> None:
    done = call("show", "optimizer", "chatty", "--json")
    assert strict(done.out)["name"] == "chatty"
    assert "I am imported at last" in done.err


@pytest.mark.usefixtures("third_party")
def test_data_whose_plugin_cannot_say_where_it_lies_is_no_fault_of_playground(call: Callable[..., Any]) -> None:
    done = call("show", "data", "lost")
    assert "fault of playground" not in done.err
    assert "the disk is gone" in done.out + done.err
    assert "lost" in done.out + done.err


# Requests that are wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("optimizer", "adagrda"), ("unknown optimizer 'adagrda'", "did you mean 'adagrad'?")),
        (("data", "airfoils"), ("unknown data 'airfoils'", "did you mean 'airfoil'?")),
        (("model", "zzz"), ("unknown model 'zzz'", "there are: lenet, linear, mlp, resnet18")),
        (("optimizer", "nobody/adam"), ("unknown optimizer 'nobody/adam'",)),
        (("optimizers", "adam"), ("'optimizers'", "'optimizer'")),
        (("optimizer",), ("NAME",)),
        ((), ("data",)),
    ],
)
def test_a_wrong_request_is_refused_with_a_hint(
    call: Callable[..., Any], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = call("show", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) <= 2
    assert all(word in done.err for word in words)


def test_what_a_constructor_hands_on_is_shown_without_a_value_that_nobody_knows(
    call: Callable[..., Any],
    install_plugin: Callable[..., dict[str, str]],
    in_process_plugins: Callable[..., None],
) -> None:
    source = (
        "from playground import Backend, ReplicaBackend, hookimpl\n\n\nclass Tree(ReplicaBackend):\n"
        "    def __init__(self, arity: int = 2, **options):\n        super().__init__(**{'devices': 3, **options})\n\n"
        "    def reduce(self, gradients):\n        return 0\n\n\n"
        "@hookimpl\ndef playground_backends():\n    return [Backend('tree', Tree, exact=False)]\n"
    )
    in_process_plugins(install_plugin("optim-tree", source, "tree"))
    text = call("show", "backend", "tree").out
    assert re.search(r"^arity +int +2$", text, re.MULTILINE)
    assert re.search(r"^devices +int \| str \| list\[str\] +\(its own\) +a number of replicas", text, re.MULTILINE)
    rows = {row["name"]: row for row in call("show", "backend", "tree", "--json").json["parameters"]}
    assert (rows["devices"]["default"], rows["devices"]["required"]) == (None, False)
    ran = call("run", "--backend", "tree", "--epochs", 1, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["experiment"]["backend"] == {"name": "tree", "arity": 2}
    ran = call("run", "--backend", "tree:arity=3", "--devices", 2, "--epochs", 1, "--json")
    assert ran.json["experiment"]["backend"] == {"name": "tree", "arity": 3, "devices": 2}
    refused = call("run", "--backend", "tree:devises=2")
    assert (refused.code, "did you mean 'devices'?" in refused.err) == (2, True)
