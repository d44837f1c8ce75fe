"""Requests that are wrong: one line or two that say what, exit code 2, and nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

AIRFOIL = Path(__file__).parents[3] / "plugins" / "data" / "files" / "airfoil_self_noise.dat"


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files and folders under a folder, and what the files hold."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def refused(call: Callable[..., Any], tmp_path: Path) -> Callable[..., str]:
    """Makes a request that must be refused; gives what stderr says about it."""

    def request(*arguments: object) -> str:
        before = contents(tmp_path)
        done = call(*arguments)
        assert done.code == 2, done
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert done.err.endswith("\n")
        assert len(done.err.splitlines()) <= 2, done.err
        assert "fault of playground" not in done.err
        assert contents(tmp_path) == before
        return done.err

    return request


COMPONENTS = [
    ("--optimizer", "adagrda", "unknown optimizer 'adagrda'", "did you mean 'adagrad'?"),
    ("--data", "airfoils", "unknown data 'airfoils'", "did you mean 'airfoil'?"),
    ("--model", "liner", "unknown model 'liner'", "did you mean 'linear'?"),
    ("--backend", "manul", "unknown backend 'manul'", "did you mean 'manual'?"),
    ("--optimizer", "Adam", "unknown optimizer 'Adam'", "did you mean 'adam'?"),
    ("--model", "zzz", "unknown model 'zzz'", "there are: lenet, linear, mlp, resnet18"),
    ("--optimizer", "nobody/adam", "unknown optimizer 'nobody/adam'"),
]

KEYS = [
    ("--optimizer", "adam:betaz=[0.9,0.99]", "optimizer 'adam' has no parameter 'betaz'", "did you mean 'betas'?"),
    ("--data", "airfoil:row=3", "data 'airfoil' has no parameter 'row'", "did you mean 'rows'?"),
    ("--model", "mlp:hiden=[3]", "model 'mlp' has no parameter 'hiden'", "did you mean 'hidden'?"),
    ("--backend", "manual:redcue=ring", "backend 'manual' has no parameter 'redcue'", "did you mean 'reduce'?"),
    ("--backend", "single:zzz=1", "backend 'single' has no parameter 'zzz'", "it has: devices"),
    ("--optimizer", "sgd:params=1", "optimizer 'sgd' has no parameter 'params'"),
    ("--model", "linear:inputs=5", "model 'linear' has no parameter 'inputs'"),
]

TYPES = [
    ("--optimizer", "sgd:lr=fast", "optimizer 'sgd': lr must be float", "'fast'"),
    ("--optimizer", "sgd:lr=true", "lr must be float", "True"),
    ("--optimizer", "sgd:lr=[0.1]", "lr must be float", "[0.1]"),
    ("--optimizer", "sgd:lr=none", "lr must be float", "None"),
    ("--optimizer", "sgd:momentum=high", "momentum must be float", "'high'"),
    ("--optimizer", "sgd:nesterov=maybe", "nesterov must be bool", "'maybe'"),
    ("--optimizer", "sgd:nesterov=1", "nesterov must be bool", "1"),
    ("--optimizer", "adam:betas=0.9", "betas must be tuple", "0.9"),
    ("--optimizer", "adam:betas=[0.9]", "betas must be tuple", "[0.9]"),
    ("--optimizer", "adam:betas=[0.9,0.99,0.999]", "betas must be tuple"),
    ("--optimizer", "adam:betas=[a,b]", "betas must be tuple", "['a', 'b']"),
    ("--model", "mlp:hidden=8", "hidden must be tuple[int, ...]", "8"),
    ("--model", "mlp:hidden=[1.5]", "hidden must be tuple[int, ...]", "[1.5]"),
    ("--model", "mlp:activation=sine", "activation must be relu | tanh", "'sine'"),
    ("--model", "linear:bias=yes", "bias must be bool", "'yes'"),
    ("--data", "airfoil:rows=1.5", "rows must be int | none", "1.5"),
    ("--data", "airfoil:rows=many", "rows must be int | none", "'many'"),
    ("--data", "airfoil:holdout=half", "holdout must be float", "'half'"),
    ("--data", "airfoil:path=3", "path must be str | none", "3"),
    ("--data", "linear-regression:weights=5", "weights must be tuple[float, ...]", "5"),
    ("--backend", "manual:reduce=tree", "reduce must be star | ring", "'tree'"),
    ("--backend", "manual:devices=1.5", "devices must be int | str | list[str]", "1.5"),
    ("--backend", "manual:devices=[1, 2]", "devices must be int | str | list[str]", "[1, 2]"),
    ("--lr", "abc", "'--lr'", "'abc'"),
    ("--epochs", "abc", "'--epochs'", "'abc'"),
    ("--epochs", "1.5", "'--epochs'", "'1.5'"),
    ("--steps", "few", "'--steps'", "'few'"),
    ("--batch-size", "ten", "'--batch-size'", "'ten'"),
    ("--seed", "x", "'--seed'", "'x'"),
    ("--eval-every", "often", "'--eval-every'", "'often'"),
]

RANGES = [
    ("--lr", "0", "lr must be a positive, finite number", "0"),
    ("--lr", "-0.1", "lr must be a positive, finite number", "-0.1"),
    ("--lr", "nan", "lr must be a positive, finite number", "nan"),
    ("--lr", "inf", "lr must be a positive, finite number", "inf"),
    ("--optimizer", "adam:lr=0", "lr must be a positive, finite number", "0"),
    ("--optimizer", "adam:lr=nan", "lr must be a positive, finite number", "nan"),
    ("--optimizer", "adam:lr=-1e-3", "lr must be a positive, finite number", "-0.001"),
    ("--batch-size", "0", "batch-size must be a whole number, 1 or more", "0"),
    ("--batch-size", "-10", "batch-size must be a whole number, 1 or more", "-10"),
    ("--epochs", "0", "epochs must be a whole number, 1 or more", "0"),
    ("--epochs", "-1", "epochs must be a whole number, 1 or more", "-1"),
    ("--steps", "0", "steps must be a whole number, 1 or more", "0"),
    ("--evaluate", "", "evaluate must be train or test, or both, not ''"),
    ("--evaluate", "tset", "evaluate must be train or test, or both, not 'tset'"),
    ("--evaluate", "test", "data 'airfoil' (plugin optim-playground/data", "has no test rows here"),
    ("--evaluate", "train,test", "data 'airfoil' (plugin optim-playground/data", "has no test rows here"),
    ("--seed", "-1", "seed must be a whole number, 0 or more", "-1"),
    ("--eval-every", "0", "eval-every must be a whole number, 1 or more", "0"),
    ("--data", "airfoil:rows=0", "rows must be from 1 to 1503", "0"),
    ("--data", "airfoil:rows=1504", "rows must be from 1 to 1503", "1504"),
    ("--data", "airfoil:holdout=1", "holdout must be at least 0 and below 1", "1.0"),
    ("--data", "airfoil:holdout=-0.1", "holdout must be at least 0 and below 1", "-0.1"),
    ("--data", "airfoil:holdout=nan", "holdout must be at least 0 and below 1", "nan"),
    ("--data", "airfoil:holdout=0.0001", "holdout=0.0001 of 1500 rows leaves 0 to test on"),
    ("--data", "airfoil:seed=-1,holdout=0.1", "seed must be at least 0"),
    ("--data", "linear-regression:rows=0", "rows must be 1 or more"),
    ("--data", "linear-regression:noise=-1", "noise"),
    ("--data", "linear-regression:weights=[]", "weights"),
    ("--model", "mlp:dropout=1", "dropout must be at least 0 and below 1", "1.0"),
    ("--model", "mlp:hidden=[8,0]", "hidden must be sizes of 1 or more", "0"),
]

EXPRESSIONS = [
    ("--optimizer", "", "''", "NAME:KEY=VALUE"),
    ("--optimizer", ":", "':'", "NAME:KEY=VALUE"),
    ("--optimizer", ":lr=1", "':lr=1'", "NAME:KEY=VALUE"),
    ("--optimizer", "ad am", "'ad am'", "NAME:KEY=VALUE"),
    ("--optimizer", "adam lr=1", "'adam lr=1'", "NAME:KEY=VALUE"),
    ("--optimizer", "adam:", "'adam:'", "KEY=VALUE"),
    ("--optimizer", "adam:lr", "'lr' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:lr=", "'lr=' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:=1", "'=1' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:lr=1,", "'' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:lr=1,,eps=1", "'' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:lr=1,lr=2", "'lr' is given twice"),
    ("--optimizer", "adam:betas=0.9,0.99", "'0.99' is not of the form KEY=VALUE"),
    ("--optimizer", "adam:betas=[0.9,0.99", "] is missing at the end"),
    ("--optimizer", "adam:betas=0.9,0.99]", "']' closes nothing"),
    ("--data", 'airfoil:path="a', '" is missing at the end'),
    ("--optimizer", "adam::lr=1", "':lr=1' is not of the form KEY=VALUE"),
]

DEVICES = [
    ("cuda:99", "there is no device 'cuda:99' here; there are: ", "cpu"),
    ("gpu", "there is no device 'gpu' here"),
    ("cpu,cuda:99", "there is no device 'cuda:99' here"),
    ("cpu,", "there is no device '' here"),
    ("", "there is no device '' here"),
    ("meta", "there is no device 'meta' here"),
    ("cpu:1", "there is no device 'cpu:1' here"),
    ("cuda:99999999999999999999", "there is no device 'cuda:99999999999999999999' here"),
    ("0", "devices=0 is out of range: from 1 to"),
    ("-1", "-1"),
    ("1.5", "1.5"),
]

REFUSALS = [
    (("--optimizer", "adam:betas=[2,2]"), "optimizer 'adam' (plugin optim-playground/optimizers", "ValueError", "2.0"),
    (("--optimizer", "sgd:momentum=-1"), "optimizer 'sgd' (plugin", "momentum value: -1.0"),
    (("--optimizer", "sgd:nesterov=true"), "optimizer 'sgd' (plugin", "Nesterov"),
    (("--optimizer", "adagrad:weight_decay=-1"), "optimizer 'adagrad' (plugin", "weight_decay value: -1.0"),
    (("--optimizer", "adam:fused=true,foreach=true"), "optimizer 'adam' (plugin", "fused", "foreach"),
    (("--optimizer", "muon"), "optimizer 'muon' (plugin", "2D parameters", "torch.Size([1])"),
    (("--backend", "single", "--devices", "2"), "single trains on one device, not 2", "--backend manual"),
    (("--backend", "single", "--devices", "cpu,cpu"), "single trains on one device, not 2", "--backend manual"),
    (("--lr", "0.1", "--optimizer", "adam:lr=0.2"), "'lr' is given twice", "optimizer 'adam'"),
    (("--devices", "cpu", "--backend", "manual:devices=cpu"), "'devices' is given twice", "backend 'manual'"),
    (("--epochs", "1", "--steps", "2"), "a run ends after so many epochs or after so many steps; give one of the two"),
    (("--dtype", "float16"), "dtype must be float32 or float64, not 'float16'"),
    (("--dtype", "half"), "dtype must be float32 or float64, not 'half'"),
    (("--dtype", "flaot64"), "dtype must be float32 or float64", "did you mean 'float64'?"),
]

OPTIONS = [
    (("run", "--foo"), "'--foo'"),
    (("run", "--optimiser", "adam"), "'--optimiser'", "'--optimizer'"),
    (("run", "--epochs"), "'--epochs'", "argument"),
    (("run", "one.toml", "two.toml"), "two.toml"),
    (("runn",), "'runn'", "'run'"),
    (("--foo", "run"), "'--foo'"),
    (("run", "--progress", "nonsense"), "'--progress'", "'nonsense'", "auto", "bar", "lines", "none"),
    (("run", "--no-plugin", "nonsense"), "there is no plugin 'nonsense'; there are: ", "optimizers"),
    (("--no-plugin", "optimizer", "run"), "there is no plugin 'optimizer'", "did you mean 'optimizers'?"),
    (("list", "--no-plugin", "nonsense"), "there is no plugin 'nonsense'"),
    (("run", "--no-plugin", "optimizers"), "no optimizer was chosen", "--optimizer"),
    (
        ("run", "--no-plugin", "optimizers", "--optimizer", "adam"),
        *("unknown optimizer 'adam'", "there are: none", "optimizers is disabled"),
    ),
    (("run", "--json=yes"), "'--json'"),
]


@pytest.mark.parametrize(("option", "value", "words"), [(a, b, words) for a, b, *words in COMPONENTS])
def test_an_unknown_component_is_refused(
    refused: Callable[..., str], option: str, value: str, words: list[str]
) -> None:
    said = refused("run", option, value)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(("option", "value", "words"), [(a, b, words) for a, b, *words in KEYS])
def test_an_unknown_parameter_is_refused(
    refused: Callable[..., str], option: str, value: str, words: list[str]
) -> None:
    said = refused("run", option, value)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(("option", "value", "words"), [(a, b, words) for a, b, *words in TYPES])
def test_a_value_of_the_wrong_type_is_refused(
    refused: Callable[..., str], option: str, value: str, words: list[str]
) -> None:
    said = refused("run", option, value)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(("option", "value", "words"), [(a, b, words) for a, b, *words in RANGES])
def test_a_value_out_of_its_range_is_refused(
    refused: Callable[..., str], option: str, value: str, words: list[str]
) -> None:
    said = refused("run", option, value)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(("option", "value", "words"), [(a, b, words) for a, b, *words in EXPRESSIONS])
def test_a_malformed_expression_is_refused(
    refused: Callable[..., str], option: str, value: str, words: list[str]
) -> None:
    said = refused("run", option, value)
    assert all(word in said for word in words), said


def test_an_expression_of_many_lines_is_refused_in_two_at_most(refused: Callable[..., str]) -> None:
    assert "is missing at the end" in refused("run", "--optimizer", "adam:\n  lr=0.1,\n  betas=[0.9,\n  0.99")


@pytest.mark.parametrize(("devices", "words"), [(devices, words) for devices, *words in DEVICES])
@pytest.mark.parametrize("backend", ["manual", "single"])
def test_devices_that_are_not_there_are_refused(
    refused: Callable[..., str], backend: str, devices: str, words: list[str]
) -> None:
    said = refused("run", "--backend", backend, "--devices", devices)
    assert all(word in said for word in words), said


def test_more_replicas_than_the_cpu_is_given_are_refused(refused: Callable[..., str]) -> None:
    assert "devices=257 is out of range: from 1 to" in refused("run", "--backend", "manual", "--devices", 257)


@pytest.mark.parametrize(("arguments", "words"), [(arguments, words) for arguments, *words in REFUSALS])
def test_what_a_component_itself_refuses_is_said_in_its_words_and_with_its_name(
    refused: Callable[..., str], arguments: tuple[str, ...], words: list[str]
) -> None:
    said = refused("run", *arguments)
    assert all(word in said for word in words), said


def test_what_torch_refuses_is_said_without_its_stack_frames(refused: Callable[..., str]) -> None:
    said = refused("run", "--model", "mlp:hidden=[9223372036854775808]")
    assert "cannot be built: TypeError: empty(): argument 'size'" in said
    assert "frame" not in said
    assert "raised from" not in said


@pytest.mark.parametrize(("arguments", "words"), [(arguments, words) for arguments, *words in OPTIONS])
def test_a_command_line_that_is_not_understood_is_refused(
    refused: Callable[..., str], arguments: tuple[str, ...], words: list[str]
) -> None:
    said = refused(*arguments)
    assert all(word in said for word in words), said


# Experiment files

FILES = [
    ("epochs = ", "is not TOML", "at end of document"),
    ("epochs = 1\n[optimizer\nname = 'adam'", "is not TOML", "line 2"),
    ("epochs = 1\nepochs = 2", "is not TOML"),
    ("optimizer = adam", "is not TOML"),
    ("epoch = 3", "an experiment has no 'epoch'", "did you mean 'epochs'?"),
    ("learning-speed = 3", "an experiment has no 'learning-speed'", "it has: data, model"),
    ("[optimiser]\nname = 'adam'", "an experiment has no 'optimiser'", "did you mean 'optimizer'?"),
    ("[optimizer]\nlr = 0.1", "optimizer must be an expression (NAME:KEY=VALUE) or a table with a name"),
    ("[optimizer]\nname = 'adam'\nbetaz = [0.9, 0.99]", "has no parameter 'betaz'", "did you mean 'betas'?"),
    ("[optimizer]\nname = 'adam'\nlr = 'fast'", "optimizer 'adam': lr must be float", "'fast'"),
    ("[optimizer]\nname = 'adam'\nlr = {a = 1}", "optimizer 'adam': lr must be float"),
    ("[optimizer]\nname = 'adamm'", "unknown optimizer 'adamm'", "did you mean 'adam'?"),
    ("[optimizer]\nname = 3", "optimizer must be an expression (NAME:KEY=VALUE) or a table with a name"),
    ("optimizer = 3", "optimizer must be an expression (NAME:KEY=VALUE) or a table with a name, not 3"),
    ("optimizer = ['adam', 'sgd']", "optimizer must be an expression"),
    ("data = 'airfoil:rows'", "'rows' is not of the form KEY=VALUE"),
    ("epochs = 2.0", "epochs must be a whole number, 1 or more, not 2.0"),
    ("epochs = true", "epochs must be a whole number, 1 or more, not True"),
    ("epochs = '2'", "epochs must be a whole number, 1 or more, not '2'"),
    ("epochs = 1\nsteps = 2", "a run ends after so many epochs or after so many steps; give one of the two"),
    ("evaluate = ['train', 'dev']", "evaluate must be train or test, or both, not ['train', 'dev']"),
    ("evaluate = 'test'", "data 'airfoil' (plugin optim-playground/data", "has no test rows here"),
    ("batch-size = 0", "batch-size must be a whole number, 1 or more, not 0"),
    ("batch_size = [10]", "batch-size must be a whole number, 1 or more"),
    ("seed = 1979-05-27", "seed must be a whole number, 0 or more"),
    ("eval-every = {a = 1}", "eval-every must be a whole number, 1 or more"),
    ("dtype = 32", "dtype must be float32 or float64, not 32"),
    ("dtype = ['float32']", "dtype must be float32 or float64"),
    ("lr = 'fast'", "lr must be float", "'fast'"),
    ("lr = -1", "lr must be a positive, finite number"),
    ("lr = 0.1\noptimizer = 'adam:lr=0.2'", "'lr' is given twice"),
    ("devices = 'cuda:99'", "there is no device 'cuda:99' here"),
    ("batch-size = 10\nbatch_size = 20", "batch"),
]


@pytest.mark.parametrize(("text", "words"), [(text, words) for text, *words in FILES])
def test_a_wrong_experiment_file_is_refused(
    refused: Callable[..., str], tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "experiment.toml").write_text(text, encoding="utf-8")
    said = refused("run", "experiment.toml")
    assert all(word in said for word in words), said
    assert "is not TOML" not in said or "experiment.toml" in said


def test_an_experiment_file_that_is_not_text_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_bytes(b"epochs = 1\n# \xff\xfe\n")
    said = refused("run", "experiment.toml")
    assert "experiment.toml is not TOML" in said


def test_an_experiment_file_that_is_missing_or_a_folder_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "cannot read the experiment file missing.toml: No such file or directory" in refused("run", "missing.toml")
    assert "cannot read the experiment file folder: Is a directory" in refused("run", "folder")
    assert "missing.toml" in refused("run", "folder/missing.toml")


def test_a_flag_does_not_mend_a_wrong_file(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text("epoch = 3", encoding="utf-8")
    assert "'epoch'" in refused("run", "experiment.toml", "--epochs", 1)


# Data files

NASA = AIRFOIL.read_bytes().splitlines()[:20]


def joined(lines: list[bytes]) -> bytes:
    return b"\r\n".join(lines) + b"\r\n"


DATA_FILES = [
    (b"", "line 1: the file is empty"),
    (b"\r\n\r\n", "line 1: the file is empty"),
    (b"800,0,0.3048,71.3,0.00266337,126.201\n", "line 1: 1 column, not 6"),
    (joined([*NASA[:3], b"800\t0\t0.3048\t71.3\t0.00266337", *NASA[3:]]), "line 4: 5 columns, not 6"),
    (joined([*NASA[:3], b"", *NASA[3:]]), "line 4: 0 columns, not 6"),
    (joined([b"Hz deg m m/s m dB", *NASA]), "line 1: 'Hz' is not a number"),
    (joined([*NASA[:5], NASA[5].replace(b"0.3048", b"nan")]), "line 6: 'nan' is not a finite number"),
    (joined([*NASA[:5], NASA[5].replace(b"0.3048", b"1e999")]), "line 6: '1e999' is not a finite number"),
    (joined([*NASA[:2], b"\xff\xfe"]), "line 3: not text in UTF-8"),
    (joined(NASA[:1]), "one row cannot be standardised"),
    (joined(NASA[:1] * 3), "column 1: 800 in every row, and a constant cannot be standardised"),
    (b"\x1f\x8b\x08\x00" + bytes(range(256)), "line 1: not text in UTF-8"),
]


@pytest.mark.parametrize(("raw", "words"), DATA_FILES)
def test_a_data_file_that_is_not_airfoils_is_refused_with_the_file_and_the_line(
    refused: Callable[..., str], tmp_path: Path, raw: bytes, words: str
) -> None:
    (tmp_path / "mine.dat").write_bytes(raw)
    said = refused("run", "--data", "airfoil:path=mine.dat")
    assert "mine.dat" in said
    assert words in said, said


def test_a_data_file_that_is_missing_or_a_folder_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "cannot read missing.dat: No such file or directory" in refused("run", "--data", "airfoil:path=missing.dat")
    assert f"cannot read {tmp_path}: Is a directory" in refused("run", "--data", f"airfoil:path='{tmp_path}'")


# Where nothing can be written


def test_a_file_in_the_way_of_the_runs_is_refused_and_left_alone(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("not a folder", encoding="utf-8")
    said = refused("run", "--data", "linear-regression:rows=20")
    assert "cannot make a run in 'runs': " in said
    assert "--out" in said


def test_a_folder_under_a_file_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    said = refused("run", "--data", "linear-regression:rows=20", "--out", "file/runs")
    assert "cannot make a run in 'file/runs': Not a directory" in said


def test_a_place_where_nobody_can_write_is_refused(refused: Callable[..., str]) -> None:
    said = refused("run", "--data", "linear-regression:rows=20", "--out", "/proc/playground/runs")
    assert "cannot make a run in '/proc/playground/runs': " in said
    assert "--out" in said


def test_a_place_where_run_json_cannot_be_written_is_left_as_it_was(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    said = refused("run", "--data", "linear-regression:rows=20", "--out", "new/runs")
    assert "cannot make a run in 'new/runs': No space left on device" in said


# Third parties

THIRD_PARTY = """
from playground import Backend, Data, Dataset, Model, Optimizer, Plan, ReplicaBackend, hookimpl

def flat(inputs, outputs):
    from torch import nn
    return nn.Sequential(nn.Linear(inputs[0], outputs), nn.Flatten(0))

def wide(inputs, outputs):
    from torch import nn
    return nn.Linear(inputs[0], outputs + 1)

def narrow(inputs, outputs):
    from torch import nn
    return nn.Linear(inputs[0] + 1, outputs)

def raises(*inputs, **parameters):
    raise FileNotFoundError("the weights are\\nnot where they were")

def leaves(*inputs, **parameters):
    raise SystemExit("I am leaving")

def nothing(*inputs, **parameters):
    return None

def empty():
    import torch
    return Dataset(train=(torch.zeros(0, 3), torch.zeros(0, 1)))

def uneven():
    import torch
    return Dataset(train=(torch.zeros(3, 3), torch.zeros(4, 1)))

class Many(ReplicaBackend):
    def plan(self, request):
        import torch
        return Plan((torch.device("cpu"),) * 2, threads=1, processes=2)

    def reduce(self, gradients):
        return 0

def needs(params, lr: float, decay: float):
    pass

@hookimpl
def playground_models():
    return [Model(one.__name__, one) for one in (flat, wide, narrow, raises, leaves, nothing)]

@hookimpl
def playground_optimizers():
    return [
        Optimizer("raises", raises),
        Optimizer("nothing", nothing),
        Optimizer("needs", needs),
        Optimizer("nowhere", "optim_third:Nowhere"),
        Optimizer("number", "optim_third:__name__"),
    ]

@hookimpl
def playground_data():
    return [Data(one.__name__, one) for one in (raises, nothing, empty, uneven)]

@hookimpl
def playground_backends():
    return [Backend("raises", raises), Backend("nothing", nothing), Backend("many", Many)]
"""

BLAMED = [
    ("model", "flat", "(1500,)", "(1500, 1)", "shape"),
    ("model", "wide", "(1500, 2)", "(1500, 1)", "shape"),
    ("model", "narrow", "RuntimeError", "1500x5"),
    ("model", "raises", "FileNotFoundError: the weights are not where they were"),
    ("model", "leaves", "SystemExit: I am leaving"),
    ("model", "nothing", "gives a NoneType, not a Module"),
    ("optimizer", "raises", "FileNotFoundError: the weights are not where they were"),
    ("optimizer", "nothing", "gives a NoneType, not a Optimizer"),
    ("optimizer", "nowhere", "cannot be loaded", "Nowhere"),
    ("optimizer", "number", "cannot be loaded", "cannot be called"),
    ("data", "raises", "FileNotFoundError: the weights are not where they were"),
    ("data", "nothing", "gives a NoneType, not a Dataset"),
    ("data", "empty", "train has no rows"),
    ("data", "uneven", "3 rows of inputs and 4 of targets"),
    ("backend", "raises", "FileNotFoundError: the weights are not where they were"),
    ("backend", "nothing", "gives a NoneType, not a ParallelBackend"),
    ("backend", "many", "2 processes"),
]


@pytest.fixture
def third_party(
    install_plugin: Callable[..., dict[str, str]], in_process_plugins: Callable[[dict[str, str]], None]
) -> None:
    in_process_plugins(install_plugin("optim-third", THIRD_PARTY, "third"))


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(("kind", "name", "words"), [(kind, name, words) for kind, name, *words in BLAMED])
def test_a_third_partys_component_that_does_not_work_is_named_with_its_plugin_and_the_cause(
    refused: Callable[..., str], kind: str, name: str, words: list[str]
) -> None:
    said = refused("run", f"--{kind}", name)
    assert f"{kind} '{name}' (plugin optim-third/third 1.2.3)" in said
    assert all(word in said for word in words), said


@pytest.mark.usefixtures("third_party")
def test_a_parameter_that_is_needed_is_asked_for(refused: Callable[..., str]) -> None:
    assert "optimizer 'needs' needs a value for lr, decay" in refused("run", "--optimizer", "needs")
    assert "optimizer 'needs' needs a value for decay" in refused("run", "--optimizer", "needs", "--lr", 1)


@pytest.mark.usefixtures("third_party")
def test_an_optimizer_without_a_learning_rate_is_not_given_one(refused: Callable[..., str]) -> None:
    assert "optimizer 'nowhere'" in refused("run", "--optimizer", "nowhere", "--lr", 1)


# In a process of its own


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("run", "--optimizer", "adagrda"), "did you mean 'adagrad'?"),
        (("run", "missing.toml"), "No such file or directory"),
        (("run", "--data", "airfoil:path=mine.dat"), "mine.dat, line 2: 2 columns, not 6"),
    ],
)
def test_a_wrong_request_ends_the_process_with_2_and_leaves_nothing(
    cli: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    (tmp_path / "mine.dat").write_bytes(joined([NASA[0], b"1 2"]))
    before = contents(tmp_path)
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert word in line
    assert contents(tmp_path) == before


def test_debug_shows_the_traceback_of_a_wrong_request_and_ends_with_2_all_the_same(call: Callable[..., Any]) -> None:
    done = call("run", "--optimizer", "adagrda", "--debug")
    assert (done.code, done.out) == (2, "")
    assert "Traceback (most recent call last)" in done.err
    assert done.err.splitlines()[-1].startswith("error: unknown optimizer 'adagrda'")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which only Linux has")
@pytest.mark.parametrize("arguments", [("list",), ("plugins", "--json")])
def test_output_that_cannot_be_written_is_one_line_that_says_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "playground", *arguments],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: the output could not be written: No space left on device\n"


def test_a_reader_who_has_left_ends_a_command_without_a_word(tmp_path: Path) -> None:
    nobody, end = os.pipe()
    os.close(nobody)
    with os.fdopen(end, "wb", buffering=0) as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "playground", "list"],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")
