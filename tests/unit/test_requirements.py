"""The wheel's extras, the locked versions and what each part of Muster imports agree with each other."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from muster.paths import REQUIREMENTS

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "requirements"
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: Final[dict[str, dict[str, list[str]]]] = PYPROJECT["tool"]["setuptools"]["dynamic"][
    "optional-dependencies"
]
HEAVY: Final = (
    *("pulumi", "pulumi_policy", "pulumi_kubernetes", "pulumi_aws", "pulumi_gcp", "grpc"),
    *("boto3", "botocore", "google", "googleapiclient", "httplib2"),
    *("aiohttp", "msgspec", "structlog", "cryptography", "lightkube", "httpx2"),
)
# What `pip install muster` without an extra has to run.
BASE_COMMANDS: Final = ("validate", "snapshot", "why")


def lines(path: Path) -> Iterator[Requirement]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "# -":
            yield Requirement(line.removesuffix(" \\"))


def source(name: str) -> list[Requirement]:
    return list(lines(SOURCES / f"{name}.in"))


def locked(path: Path) -> dict[str, str]:
    return {each.name: next(iter(each.specifier)).version for each in lines(path)}


@pytest.mark.parametrize("name", ["base", "program", "gke", "eks", "local", "controller"])
def test_every_range_has_a_lower_bound_and_the_locked_version_is_in_it(name: str) -> None:
    lock = locked(SOURCES / "dev.txt")
    for requirement in source(name):
        operators = {each.operator for each in requirement.specifier}
        assert ">=" in operators, f"{requirement} in requirements/{name}.in has no lower bound"
        assert "==" not in operators, f"{requirement}: the exact version belongs in the lock (`make lock`)"
        assert requirement.specifier.contains(lock[requirement.name]), f"run `make lock`: {requirement}"


def test_controller_image_has_the_versions_of_its_extra() -> None:
    lock = locked(REQUIREMENTS / "controller.txt")
    for requirement in source("controller"):
        assert requirement.specifier.contains(lock[requirement.name]), f"run `make lock`: {requirement}"


def test_constraints_of_a_new_project_are_the_versions_that_the_tests_ran_with() -> None:
    lock = locked(SOURCES / "dev.txt")
    constraints = locked(REQUIREMENTS / "constraints.txt")
    assert {name: lock[name] for name in constraints} == constraints, "run `make lock`"
    for name in ("base", "program", "gke", "eks", "local"):
        assert {each.name for each in source(name)} <= set(constraints)


def test_extras_are_read_from_the_requirements_and_all_has_every_one_of_them() -> None:
    named = {Path(each) for extra in EXTRAS.values() for each in extra["file"]}
    assert all((ROOT / each).is_file() for each in named)
    assert {Path(each) for each in EXTRAS["all"]["file"]} == named
    for name in ("gke", "eks", "local"):
        assert EXTRAS[name]["file"] == ["requirements/program.in", f"requirements/{name}.in"]


@pytest.mark.parametrize("command", BASE_COMMANDS)
def test_base_commands_import_nothing_of_the_extras(command: str) -> None:
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ImportError(f"{{name}} is not in the base install")
sys.meta_path.insert(0, Refuse())
import muster.cli.commands.{command}, muster.config.scaffold, muster.artifacts.upstream
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
