"""The wheel's extras, the locked versions and what each part of Muster imports agree with each other."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from muster.cli.command import missing_extra
from muster.distribution import install_command
from muster.paths import REQUIREMENTS

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "requirements"
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: Final[dict[str, dict[str, list[str]]]] = PYPROJECT["tool"]["setuptools"]["dynamic"][
    "optional-dependencies"
]
CLOUD: Final = ("boto3", "botocore", "google", "googleapiclient", "httplib2", "pulumi_aws", "pulumi_gcp")
LOCAL: Final = ("rich", "cryptography", "msgspec", "structlog")
CHECK: Final = ("cel_expr_python", "msgspec")
HEAVY: Final = (
    *CLOUD,
    *LOCAL,
    *CHECK,
    "pulumi",
    "pulumi_policy",
    "pulumi_kubernetes",
    "grpc",
    "aiohttp",
    "packaging",
)
# What the wheel without an extra has to run.
BASE_COMMANDS: Final = (
    *("stack", "diff", "live", "why", "submit", "project", "ci"),
    *("adopt", "record"),
)


def lines(path: Path) -> Iterator[Requirement]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "# -":
            yield Requirement(line.removesuffix(" \\"))


def source(name: str) -> list[Requirement]:
    return list(lines(SOURCES / f"{name}.in"))


def locked(path: Path) -> dict[str, str]:
    return {each.name: next(iter(each.specifier)).version for each in lines(path)}


@pytest.mark.parametrize("name", ["base", "check", "program", "gke", "eks", "local", "controller"])
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
    for name in ("base", "check", "program", "gke", "eks", "local"):
        assert {each.name for each in source(name)} <= set(constraints)


def test_make_up_installs_versions_that_the_tests_ran_with_and_all_that_it_imports() -> None:
    assert locked(SOURCES / "up.txt").items() <= locked(SOURCES / "dev.txt").items(), "run `make lock`"
    absent = ("pulumi_aws", "pulumi_gcp", "boto3", "googleapiclient", "cel_expr_python", "structlog")
    modules = ("muster.cli.commands.local_demo", "muster.components.platform", "muster.provider.__main__")
    done = without(absent, f"import {', '.join(modules)}")
    assert done.returncode == 0, done.stderr


def test_make_docs_installs_versions_that_the_tests_ran_with_and_no_sdk() -> None:
    lock = locked(SOURCES / "docs.txt")
    assert lock.items() <= locked(SOURCES / "dev.txt").items(), "run `make lock`"
    assert {each.name for each in source("docs")} <= set(lock)
    assert not [name for name in lock if name.startswith(("pulumi", "playwright", "boto", "google"))]


def test_extras_are_read_from_the_requirements_and_all_has_every_one_of_them() -> None:
    named = {Path(each) for extra in EXTRAS.values() for each in extra["file"]}
    assert all((ROOT / each).is_file() for each in named)
    assert {Path(each) for each in EXTRAS["all"]["file"]} == named
    for name in ("gke", "eks", "local"):
        assert EXTRAS[name]["file"] == ["requirements/program.in", f"requirements/{name}.in"]


@pytest.mark.parametrize("command", BASE_COMMANDS)
def test_base_commands_import_nothing_of_the_extras(command: str) -> None:
    done = without(HEAVY, f"import muster.cli.commands.{command}, muster.artifacts.resolved")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["image", "doctor"])
def test_commands_for_a_cloud_import_nothing_of_the_local_cluster(command: str) -> None:
    done = without((*LOCAL, *CLOUD), f"import muster.cli.commands.{command}")
    assert done.returncode == 0, done.stderr


def test_check_imports_nothing_but_its_own_extra() -> None:
    others = tuple(name for name in HEAVY if name not in CHECK)
    done = without(others, "import muster.cli.commands.check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        (["check", "x", "--stack", "x", "--team", "x"], "check"),
        (["why", "a/b", "--stack", "x", "--replay", "x"], "check,local"),
        (["record", "--out", "x"], "controller"),
        (["local", "up"], "local"),
        (["local", "story", "small"], "local"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each[:2]),
)
def test_a_command_without_its_packages_names_all_extras_that_it_needs(
    arguments: list[str], extras: str
) -> None:
    done = without(HEAVY, f"from muster.cli import main; sys.exit(main({arguments!r}))")
    assert done.returncode == 2
    assert "Error: this command needs the Python package" in done.stderr
    assert f"Fix: install what the command needs: {install_command(extras)}" in done.stderr


def test_help_of_a_command_without_its_packages_says_what_it_does_and_needs() -> None:
    done = without(HEAVY, "from muster.cli import main; sys.exit(main(['check', 'x', '--help']))")
    assert done.returncode == 0, done.stderr
    assert "Check offline whether a team's job" in done.stdout
    assert f"Install what the command needs: {install_command('check')}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "nowhere", "--recording", "x", "--goal", "p95(all) < 15m"], "there is no such stack file"),
        (["plan", "gke-prod", "--recording", "x", "--goal", "p95(all) < 15m"], "x: cannot be read"),
        (["what-if", "nowhere", "--synthetic", "1+1"], "there is no such stack file"),
        (["diff", "nowhere", "--replay", "x"], "there is no such stack file"),
        (["diff", "gke-prod", "--base", "none", "--replay", "x"], "x: cannot be read"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each[:2]),
)
def test_a_wrong_path_is_said_before_a_missing_extra(arguments: list[str], words: str) -> None:
    done = without(HEAVY, f"from muster.cli import main; sys.exit(main({arguments!r}))")
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("modules", "extras"),
    [
        ("muster.cli.forecast, muster.preview.replay.forecast_text", ["check", "local"]),
        ("muster.cli.commands.record, muster.replay.recorder", ["controller"]),
        (
            "muster.preview.proposal.proposal, muster.preview.replay.both, muster.preview.whatif.kueue",
            ["local"],
        ),
        ("muster.artifacts.publish.build, muster.artifacts.publish.build", ["program"]),
    ],
    ids=["why", "record", "plan, diff and what-if", "image"],
)
def test_the_named_extras_have_all_that_the_command_imports(modules: str, extras: list[str]) -> None:
    files = {file for extra in extras for file in EXTRAS[extra]["file"]}
    brought = {each.name.replace("-", "_") for file in files for each in lines(ROOT / file)}
    # structlog's console renderer takes rich only where it is there.
    done = without(tuple(set(HEAVY) - brought), f"import {modules}")
    assert done.returncode == 0, done.stderr


def test_every_package_of_an_extra_is_named_when_it_is_missing() -> None:
    named = {name for name in (*HEAVY, *LOCAL) if missing_extra(ModuleNotFoundError(name=name), ())}
    # It comes with another package of the extras.
    assert {*HEAVY, *LOCAL} - named == {"grpc"}
    assert missing_extra(ModuleNotFoundError(name="muster.nosuch"), ()) is None


def without(modules: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that cannot import these."""
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
{code}
"""
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
