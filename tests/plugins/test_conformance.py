"""Everything that comes with the project passes its own conformance kit, as the examples do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from playground import Registry
from playground.conformance import check

if TYPE_CHECKING:
    from playground.conformance import Report

REGISTRY = Registry()

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPRESSIONS = {
    # The whole one has 83 million parameters.
    "resnet18": ("resnet18:widths=[4, 8]", "resnet18:widths=[8],batch_norm=false"),
    "mlp": ("mlp", "mlp:hidden=[4, 3],dropout=0.5,batch_norm=true"),
    "airfoil": ("airfoil", "airfoil:holdout=0.2"),
    "manual": ("manual", "manual:reduce=ring", "manual:concurrency=threads"),
    "data-parallel": ("data-parallel", "data-parallel:concurrency=threads"),
    "adam": ("adam", "adam:amsgrad=true,weight_decay=0.1"),
    "momentum": ("momentum", "momentum:nesterov=true"),
}


def failures(report: Report) -> dict[str, str]:
    return {one.check.name: one.evidence for one in report.outcomes if one.verdict == "fail"}


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        (one.kind, expression)
        for one in REGISTRY.components
        for expression in EXPRESSIONS.get(one.name, (one.name,))
        if one.plugin.distribution == "optim-playground"
    ],
)
def test_every_component_of_the_project_passes(kind: str, expression: str, request: pytest.FixtureRequest) -> None:
    if expression == "fashion-mnist":
        expression = f"fashion-mnist:path='{request.getfixturevalue('fashion_mnist')}'"
    report = check(kind, expression, REGISTRY)
    assert failures(report) == {}
    assert sum(one.verdict == "pass" for one in report.outcomes) >= 5


@pytest.mark.parametrize("name", ["lion", "gossip"])
def test_an_example_is_installed_and_passes_its_own_tests(name: str, tmp_path: Path, cli: Any) -> None:
    # A copy, since building leaves traces.
    project, site = tmp_path / "project", tmp_path / "site"
    shutil.copytree(EXAMPLES / f"playground-{name}", project)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([*pip, str(site), str(project)], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "tests"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    kind = {"lion": "optimizer", "gossip": "backend"}[name]
    ran = cli("run", f"--{kind}", name, "--epochs", 1, env={"PYTHONPATH": str(site)})
    assert ran.code == 0, ran.err


def test_gossip_is_short_and_says_that_it_is_not_exact() -> None:
    text = (EXAMPLES / "playground-gossip" / "playground_gossip" / "gossip.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 35
    assert "exact=False" in (EXAMPLES / "playground-gossip" / "playground_gossip" / "__init__.py").read_text()
