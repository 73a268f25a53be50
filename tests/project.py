"""A project outside the checkout, made by `muster init` of the wheel, with Muster installed from the wheel.

The commands are those of the README that the project gets. Pip takes the wheel from the project, and
everything else from its cache or the package index.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bench.wheel import ROOT, build_wheel, install, make_environment
from muster.paths import REQUIREMENTS

# Nothing of the checkout may be found by a project.
_FOREIGN: Final = ("PYTHONPATH", "VIRTUAL_ENV")
_TIMEOUT: Final = 900


@dataclass(frozen=True, slots=True)
class Project:
    """`base` is the `muster` of an environment without extras, `muster` the one of the project."""

    folder: Path
    wheel: Path
    base: Path

    @property
    def muster(self) -> Path:
        return self.folder / ".venv" / "bin" / "muster"


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what leads to the checkout."""
    return {name: value for name, value in environment.items() if name not in _FOREIGN}


def run(
    *command: str | Path, folder: Path, fails: int = 0, environment: Mapping[str, str] | None = None
) -> str:
    """Standard output and error of a command outside the checkout; AssertionError for another exit code."""
    words = list(map(str, command))
    done = subprocess.run(
        words,
        cwd=folder,
        env=clean(environment or os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    print(f"$ {shlex.join(words)}\n{done.stdout}", flush=True)
    assert done.returncode == fails, (
        f"{shlex.join(words)}: exit code {done.returncode}\n{done.stdout[-4000:]}"
    )
    return done.stdout


def new_project(folder: Path) -> Project:
    """Build the wheel, install it without extras, and make a project for the local cluster."""
    assert not folder.is_relative_to(ROOT)
    (folder / "dist").mkdir(parents=True)
    wheel = build_wheel(folder / "dist")
    python = make_environment(folder / "base")
    install(python, str(wheel), constraints=REQUIREMENTS / "constraints.txt")
    made = Project(folder / "project", wheel, python.with_name("muster"))
    run(made.base, "init", made.folder, "--provider", "local", folder=folder)
    return made


def install_requirements(project: Project) -> None:
    """The first command of the project's README. `muster init` put the wheel into the project."""
    python = make_environment(project.folder / ".venv")
    run(python, "-m", "pip", "install", "--quiet", "-r", "requirements.txt", folder=project.folder)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A new project; its requirements are not installed yet."""
    return new_project(tmp_path_factory.mktemp("own"))
