"""What the tests share: the command line in a process of its own and in this one, and plugins made on the spot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# One thread for torch in every process: two workers share two cores, and numbers must not depend on the machine.
os.environ["OMP_NUM_THREADS"] = "1"
# Not the config file of whoever runs the tests.
os.environ["PLAYGROUND_CONFIG"] = os.devnull
os.environ.pop("PLAYGROUND_DISABLE_PLUGINS", None)


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own, which sees the packages of the one that the tests run in."""

    python: Path
    cwd: Path

    def __call__(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "playground", *arguments, **env)

    def run(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *map(str, arguments)],
            cwd=self.cwd,
            env={**os.environ, **OFFLINE, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def plugins(self) -> dict[str, Any]:
        return {row["name"]: row for row in json.loads(self("plugins", "--json").stdout)}


def made(place: Path, cwd: Path, *flags: str) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", *flags, place], check=True)
    python = place / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    own = Path(found.stdout.strip())
    (own / "tests.pth").write_text(line)
    # Where Python brings an old one along, it would hide the one that builds.
    for old in (*own.glob("setuptools*"), *own.glob("_distutils_hack"), *own.glob("distutils-precedence.pth")):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    return Environment(python, cwd)


@pytest.fixture
def new_environment(tmp_path: Path) -> Callable[..., Environment]:
    """Make a virtual environment of that name in `tmp_path`; further words are flags of venv."""

    def make(name: str, *flags: str) -> Environment:
        return made(tmp_path / name, tmp_path, *flags)

    return make


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Finished]:
    """`playground` in a process of its own, in an empty directory (`tmp_path`)."""

    def run(*arguments: object, env: Mapping[str, str] | None = None, timeout: float = 120) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", "playground", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """`playground` in this process, in an empty directory (`tmp_path`): for the many cases of one behaviour."""
    from playground.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Finished:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(int(exit_.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def install_plugin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, str]]:
    """Make a distribution with one plugin, as pip leaves it on disk, and give the environment that finds it.

    distribution: its name. source: the text of the plugin's module. entry_point: its name. The environments of several
    plugins are chained by passing one on as `env`.
    """

    def install(
        distribution: str,
        source: str,
        entry_point: str | None = None,
        *,
        module: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        site = tmp_path_factory.mktemp("site")
        module = module or distribution.replace("-", "_")
        (site / f"{module}.py").write_text(source, encoding="utf-8")
        info = site / f"{distribution.replace('-', '_')}-1.2.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(f"[playground]\n{entry_point or module} = {module}\n", encoding="utf-8")
        before = (env or {}).get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
        return {"PYTHONPATH": os.pathsep.join(part for part in (str(site), before) if part)}

    return install


@pytest.fixture
def in_process_plugins(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """Let this process find the plugins of an environment that `install_plugin` gave."""

    def use(env: Mapping[str, str]) -> None:
        for part in reversed(env["PYTHONPATH"].split(os.pathsep)):
            monkeypatch.syspath_prepend(part)

    before = set(sys.modules)
    yield use
    # The next test may make another plugin under the same module name.
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None)
        if origin is not None and "site" in Path(origin).parent.name and "pytest" in origin:
            del sys.modules[name]


@pytest.fixture(scope="session")
def fashion_mnist() -> Path:
    """The folder with Fashion-MNIST's real files, wherever they are on this machine; no test writes to it."""
    from playground_plugins.data.fashion_mnist.files import SYSTEM, locate

    # It looks into Debian's folder, which is the last of its places, too.
    folder = locate()
    if folder is None:
        reason = f"needs Fashion-MNIST: Debian's package dataset-fashion-mnist, or its four files in {SYSTEM}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
