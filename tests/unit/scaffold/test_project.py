"""A new project: its files, what is in them, and that this repository's own program is the same."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from muster import paths
from muster.cli import main
from muster.config.project import load_document
from muster.config.schema.keys import stack_keys
from muster.config.stack import examine
from muster.distribution import NAME
from muster.errors import MusterError
from muster.model.capacity import Capacity
from muster.scaffold.project import (
    FILES,
    Project,
    Target,
    examples,
    files,
    schema_text,
    stack_text,
    write_project,
)
from release.checkout import PART, part_text

ROOT = Path(__file__).resolve().parents[3]


def project(target: Target = Target.GKE, *stacks: str) -> Project:
    return Project(target=target, stacks=stacks or ("dev",), version="1.2.3")


def everything(target: Target, *stacks: str) -> dict[str, str]:
    return {**files(project(target, *stacks)), **examples(project(target, *stacks))}


def test_program_of_this_repository_is_the_one_that_a_project_gets() -> None:
    assert files(project())["__main__.py"] == (ROOT / "__main__.py").read_text(encoding="utf-8")


def test_project_file_differs_from_this_repository_in_where_the_provider_is_and_nothing_else() -> None:
    ours = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8").splitlines()
    theirs = files(project())["Pulumi.yaml"].splitlines()
    differing = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    assert [other.strip() for _, other in differing if not other.strip().startswith("#")] == [
        "path: .venv/bin"
    ], "run `make reference`"


def test_local_stack_is_the_one_of_this_repository() -> None:
    text = examples(project(Target.LOCAL, "local"))["stacks/Pulumi.local.yaml"]
    ours = (ROOT / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["config"] == yaml.safe_load(ours)["config"]


@pytest.mark.parametrize("target", Target)
def test_every_file_is_complete_and_can_be_read(target: Target, tmp_path: Path) -> None:
    for name, text in everything(target, "dev", "prod").items():
        assert text.endswith("\n"), name
        for word in (
            "@NAME@",
            "@EXTRA@",
            "@VERSION@",
            "@JOBS@",
            "@NEEDS@",
            "@MANUAL@",
            "@CLOUD_LOGIN",
            "@STACK",
        ):
            assert word not in text, name
        if name.endswith((".yaml", ".yml")):
            assert yaml.safe_load(text), name
        if name.endswith(".json"):
            assert json.loads(text), name
        if name.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize("target", Target)
def test_every_stack_of_a_new_project_is_valid(target: Target, tmp_path: Path) -> None:
    write_project(project(target, "dev", "ml-prod"), tmp_path, force=False)
    for name in ("dev", "ml-prod"):
        violations = examine(load_document(tmp_path / "stacks" / f"Pulumi.{name}.yaml"))[1]
        assert not [each for each in violations if each.level == "error"]


@pytest.mark.parametrize("target", Target)
def test_an_editor_finds_the_schema_beside_every_stack_file(target: Target, tmp_path: Path) -> None:
    write_project(project(target, "dev", "ml-prod"), tmp_path, force=False)
    more = ["new", "one-more", "--provider", target.value, "--folder", str(tmp_path / "stacks")]
    assert main(more) == 0
    for file in (tmp_path / "stacks").glob("Pulumi.*.yaml"):
        comment, _, named = file.read_text(encoding="utf-8").splitlines()[0].partition("$schema=")
        assert comment == "# yaml-language-server: "
        schema = json.loads((file.parent / named).read_text(encoding="utf-8"))
        assert Draft202012Validator(schema).is_valid(yaml.safe_load(file.read_text(encoding="utf-8")))


SHIPPED = sorted(
    [
        *(ROOT / "stacks").glob("*.yaml"),
        *(path for path in (ROOT / "examples/stories").glob("*/*.yaml") if path.stem in ("stack", "before")),
        *(ROOT / "examples/library").glob("*/[a-z]*.yaml"),
        *(ROOT / "examples/on-premises/stacks").glob("Pulumi.*.yaml"),
        *(ROOT / "examples/forty-teams/stacks").glob("Pulumi.*.yaml"),
        *(ROOT / "examples/environments/stacks").glob("*.yaml"),
    ]
)


def test_the_schemas_of_this_repository_are_current() -> None:
    assert (ROOT / "stacks" / "schema.json").read_text(encoding="utf-8") == schema_text(), (
        "run `make reference`"
    )
    assert (ROOT / PART).read_text(encoding="utf-8") == part_text(), "run `make reference`"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_editor_finds_the_schema_of_every_stack_of_this_repository(path: Path) -> None:
    comment, _, named = path.read_text(encoding="utf-8").splitlines()[0].partition("$schema=")
    assert comment == "# yaml-language-server: "
    schema = json.loads((path.parent / named).read_text(encoding="utf-8"))
    assert Draft202012Validator(schema).is_valid(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_one_more_stack_file_brings_the_schema_where_there_is_none(tmp_path: Path) -> None:
    assert main(["new", "dev", "--provider", "gke", "--folder", str(tmp_path)]) == 0
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == schema_text()
    assert (tmp_path / "Pulumi.dev.yaml").read_text(encoding="utf-8").startswith("# yaml-language-server: ")


@pytest.mark.parametrize("target", [target for target in Target if target is not Target.LOCAL])
def test_the_comments_of_a_new_stack_are_those_of_the_declaration(target: Target) -> None:
    listed = re.findall(r"^  #   ([a-z-]+) {2,}(.*)$", stack_text(target, "dev"), re.MULTILINE)
    keys = {key.name: key for key in stack_keys() if key.parent == "departments.DEPARTMENT.teams.TEAM"}
    assert {"quota", "borrow", "lend", "weight", "priorities"} <= {word for word, _ in listed}
    for word, comment in listed:
        if word in keys:
            assert comment.startswith(keys[word].sentence.split(",")[0])
        else:
            assert ("(the default)" in comment) == (Capacity(word) is Capacity.ON_DEMAND)


@pytest.mark.parametrize("target", Target)
def test_requirements_name_an_extra_that_the_wheel_has(target: Target) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert target.extra in settings["dynamic"]["optional-dependencies"]
    assert f"{NAME}[{target.extra}]" in files(project(target))["requirements.txt"].splitlines()


def test_no_ci_file_watches_a_folder_that_a_project_does_not_have() -> None:
    written = everything(Target.EKS, "dev")
    for name in ("preview", "up"):
        workflow = yaml.safe_load(written[f".github/workflows/muster-{name}.yml"])
        events = workflow[True]  # YAML 1.1 reads `on` as true
        watched = (events.get("push") or events.get("pull_request"))["paths"]
        assert {"stacks/**", "policies/**", "__main__.py", "Pulumi.yaml", "requirements.txt"} <= set(watched)
        for pattern in set(watched) - {"wheels/**"}:
            assert any(path == pattern or path.startswith(pattern.removesuffix("**")) for path in written)


def test_production_is_held_to_every_rule_from_the_first_day() -> None:
    written = everything(Target.GKE, "dev", "ml-prod")
    assert "policies/dev.json" in written
    assert "policies/ml-prod.json" not in written
    assert "policies/prod.json" not in everything(Target.GKE, "prod")["README.md"]


def test_every_template_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set()
    read_text = Path.read_text

    def read(path: Path, *arguments: Any, **options: Any) -> str:
        used.add(path)
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read)
    for target in Target:
        everything(target, "dev")
    assert set(FILES.rglob("*.template")) <= used


def test_existing_file_stays_as_it_is_unless_forced(tmp_path: Path) -> None:
    mine = tmp_path / "Pulumi.yaml"
    mine.write_text("name: mine\n", encoding="utf-8")
    outcome = write_project(project(), tmp_path, force=False)
    assert (outcome.kept, mine.read_text(encoding="utf-8")) == (["Pulumi.yaml"], "name: mine\n")
    assert "__main__.py" in outcome.written
    assert not write_project(project(), tmp_path, force=True).kept
    assert mine.read_text(encoding="utf-8") == files(project())["Pulumi.yaml"]


@pytest.mark.parametrize("name", ["Dev", "a b", "../up", "", "x" * 64])
def test_name_that_no_stack_may_have_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(MusterError, match="cannot be the name of a stack"):
        write_project(Project(target=Target.GKE, stacks=(name,), version="1"), tmp_path, force=True)
    assert not list(tmp_path.iterdir())


def test_constraints_pin_the_cli_version_of_the_ci_files() -> None:
    pinned = (paths.REQUIREMENTS / "constraints.txt").read_text(encoding="utf-8")
    workflow = files(project())[".github/workflows/muster-up.yml"]
    version = yaml.safe_load(workflow)["jobs"]["dev"]["steps"][3]["with"]["pulumi-version"]
    assert f"\npulumi=={version}\n" in pinned
