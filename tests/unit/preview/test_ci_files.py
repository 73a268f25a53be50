"""The CI files of a new project are valid, and every third-party reference in them is pinned."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from muster.preview.plan import UnpinnedReference, read_unpinned
from muster.scaffold.project import Project, Target, examples, files
from tests.unit.preview.preview_world import ROOT, schema_errors


def _files(target: Target) -> dict[str, str]:
    project = Project(target=target, stacks=("dev", "prod"), version="1.2.3")
    written = {**files(project), **examples(project)}
    return {name: text for name, text in written.items() if name.startswith((".github/", ".gitlab"))}


FILES = {f"{target}:{name}": text for target in Target for name, text in _files(target).items()}
GITHUB = {name: text for name, text in FILES.items() if ".github/" in name}
GITLAB = {name: text for name, text in FILES.items() if ".gitlab/" in name}
# Where each digest was read, besides the release pages that nobody here can open: in the update messages and
# tables of many public repositories, which agree.
READ = {
    "actions/download-artifact": "d3f86a106a0bac45b974a628896c90dbdf5c8093",
    "actions/checkout": "08c6903cd8c0fde910a37f88322edcfb5dd907a8",
    "actions/setup-python": "e797f83bcb11b83ae66e0230d6156d7c80228e7c",
    "actions/upload-artifact": "ea165f8d65b6e75b540449e92b4886f43607fa02",
    "golang/govulncheck-action": "b625fbe08f3bccbe446d94fbf87fcc875a4f50ee",
    "pypa/gh-action-pip-audit": "1220774d901786e6f652ae159f7b6bc8fea6d266",
}
# The workflows of this repository.
OWN = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
# What somebody outside may choose: in a script it would be code.
FOREIGN = re.compile(r"\$\{\{[^}]*(head_ref|head\.ref|\.title|\.body|\.message|\.email|label)[^}]*\}\}")


def _read(text: str) -> dict[Any, Any]:
    return dict(yaml.safe_load(text))


def _jobs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{file}:{name}", job)
        for file, text in {**GITHUB, **OWN}.items()
        for name, job in _read(text)["jobs"].items()
    ]


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ("github-workflows", {**GITHUB, **OWN}),
        ("gitlab-ci", {k: v for k, v in FILES.items() if ".gitlab" in k}),
    ],
)
def test_every_file_keeps_to_the_schema_of_its_forge(
    schema: str, texts: dict[str, str], tmp_path: Path
) -> None:
    assert texts
    written = [tmp_path / name.replace("/", "-").replace(":", "-") for name in texts]
    for path, text in zip(written, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    assert schema_errors(schema, *written) == ""


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if "FILL-IN" in text])
def test_what_is_not_pinned_is_a_placeholder_that_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ci.yml"
    path.write_text(FILES[name], encoding="utf-8")
    assert all(each.is_placeholder for each in read_unpinned(path))
    assert main(["ci", "pins", str(path)]) == 1
    assert capsys.readouterr().out.count("fix: fill in") == path.read_text("utf-8").count("FILL-IN")


@pytest.mark.parametrize("name", [*GITHUB, *OWN])
def test_every_digest_is_one_that_was_read(name: str) -> None:
    pinned = re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40}) # v\d", {**GITHUB, **OWN}[name])
    assert pinned
    assert set(pinned) <= set(READ.items())


def test_no_workflow_runs_a_strangers_code_with_our_secrets() -> None:
    for text in GITHUB.values():
        events = _read(text)[True]  # YAML 1.1 reads `on` as true
        assert not {"pull_request_target", "workflow_run"} & set(events)
        assert _read(text)["permissions"] == {}
        assert not FOREIGN.search(text)


@pytest.mark.parametrize(("name", "job"), _jobs(), ids=[name for name, _ in _jobs()])
def test_every_job_is_bounded_and_has_its_own_rights(name: str, job: dict[str, Any]) -> None:
    assert job["timeout-minutes"] <= 120
    assert job["permissions"]["contents"] == "read"
    for step in job["steps"]:
        assert "${{" not in step.get("run", ""), "an expression in a script is pasted into it as code"
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_production_requires_an_approval_on_both_forges() -> None:
    up = _read(FILES["gke:.github/workflows/muster-up.yml"])["jobs"]
    assert (up["prod"]["environment"], up["prod"]["needs"]) == ("prod", "dev")
    assert not any(job["concurrency"]["cancel-in-progress"] for job in up.values())
    gitlab = _read(FILES["gke:.gitlab/muster.yml"])
    assert gitlab["muster up prod"]["rules"][0]["when"] == "manual"
    assert gitlab["muster up prod"]["environment"] == {"name": "prod"}


@pytest.mark.parametrize("target", Target)
def test_a_pull_requests_code_gets_credentials_that_may_only_read(target: Target) -> None:
    github = _read(FILES[f"{target}:.github/workflows/muster-preview.yml"])["jobs"]
    with_secrets = {
        name for name, job in github.items() if "secrets." in str(job) or "id-token" in job["permissions"]
    }
    assert with_secrets == {"plan"}
    assert github["plan"]["environment"] == "${{ matrix.stack }}-read"
    assert "head.repo.full_name == github.repository" in github["plan"]["if"]
    gitlab = _read(FILES[f"{target}:.gitlab/muster.yml"])
    environments = {
        name: job.get("environment")
        for name, job in gitlab.items()
        if isinstance(job, dict) and "pulumi " in str(job.get("script"))
    }
    read = {"name": "$STACK-read", "action": "access"}
    assert environments == {".muster up": None, "muster plan": read, "muster drift": read}


@pytest.mark.parametrize("is_made", [True, False])
def test_a_file_of_the_pull_request_is_no_plan(is_made: bool, tmp_path: Path) -> None:
    checkout, temporary = tmp_path / "checkout", tmp_path / "temporary"
    for folder in (checkout / "plans", temporary / "plans"):
        folder.mkdir(parents=True)
        (folder.parent / "dev.json").write_text("forged", encoding="utf-8")
    (checkout / "plans/dev.json").write_text("forged", encoding="utf-8")
    if is_made:
        (temporary / "plans/dev.json").write_text("made", encoding="utf-8")
    steps = _read(FILES["gke:.github/workflows/muster-preview.yml"])["jobs"]["preview"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "Report")
    done = _run(script, checkout, BASE="base", RUNNER_TEMP=str(temporary))
    plans = ["--head-plan", f"dev={temporary}/plans/dev.json"] if is_made else []
    made = ["--markdown", "report.md", "--html", "report.html"]
    # No stack is named: the report has one that was added later, too.
    assert done.stdout.split() == ["diff", "--base", "base", *plans, *made]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_file_of_the_merge_request_is_no_plan(is_committed: bool, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=60)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/dev.json").write_text("plan", encoding="utf-8")
    if is_committed:
        subprocess.run(["git", "add", "plans"], cwd=tmp_path, check=True, timeout=60)
    (script,) = _read(FILES["gke:.gitlab/muster.yml"])["muster preview"]["script"]
    done = _run(script, tmp_path, CI_MERGE_REQUEST_DIFF_BASE_SHA="base")
    made = ["--head-plan", "dev=plans/dev.json", "--markdown", "report.md", "--html", "report.html"]
    written = done.stdout.splitlines()
    assert done.returncode == int(is_committed)
    assert is_committed or written[0].split() == ["diff", "--base", "base", *made]


def _run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script of a job, where `muster` prints its arguments."""
    muster = folder / ".venv/bin/muster"
    muster.parent.mkdir(parents=True)
    muster.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    muster.chmod(0o755)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_script_is_one_that_a_shell_can_read() -> None:
    scripts = [step["run"] for _, job in _jobs() for step in job["steps"] if "run" in step]
    scripts += [
        line
        for text in GITLAB.values()
        for job in _read(text).values()
        if isinstance(job, dict)
        for key in ("script", "before_script", "after_script")
        for line in job.get(key, [])
    ]
    for script in scripts:
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{script}"


def test_every_command_of_ours_in_them_is_one_that_we_have() -> None:
    called = {
        tuple(found)
        for text in FILES.values()
        for found in re.findall(r"/muster ((?:ci )?\w+)((?: --[\w-]+)*)", text)
    }
    assert {name for name, _ in called} == {"validate", "diff", "ci comment"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("- uses: a/b@v1", UnpinnedReference(1, "a/b@v1", False)),
        ("  uses: 'a/b/c@main' # comment", UnpinnedReference(1, "a/b/c@main", False)),
        ("- uses: a/b@FILL-IN", UnpinnedReference(1, "a/b@FILL-IN", True)),
        ("image: python:3.11", UnpinnedReference(1, "python:3.11", False)),
        ("image: x/y@sha256:FILL-IN", UnpinnedReference(1, "x/y@sha256:FILL-IN", True)),
        (f"- uses: a/b@{'0' * 39}", UnpinnedReference(1, f"a/b@{'0' * 39}", False)),
        (f"- uses: a/b@{'0' * 40}", None),
        (f"image: x/y@sha256:{'0' * 64}", None),
        ("- uses: ./.github/actions/ours", None),
        ("run: echo uses: a/b@v1", None),
    ],
)
def test_the_linter_knows_a_digest_from_a_tag(
    line: str, found: UnpinnedReference | None, tmp_path: Path
) -> None:
    path = tmp_path / "workflow.yml"
    path.write_text(line + "\n", encoding="utf-8")
    assert read_unpinned(path) == ((found,) if found else ())
