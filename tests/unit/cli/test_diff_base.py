"""Which base `muster diff` compares with: a file, a git revision, none, or where the branch began."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from muster.cli import main
from muster.config.edit import template
from muster.model.regions import Provider

FILE = "stacks/Pulumi.dev.yaml"


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, timeout=60)


def write(quota: int) -> None:
    text = template("dev", Provider.GKE).replace("quota: {l4: 4}, borrow", f"quota: {{l4: {quota}}}, borrow")
    Path(FILE).write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On main quota 4, then 3; on a branch from the first commit 2; not committed 1."""
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.yaml").write_text("name: x\nruntime: python\n", encoding="utf-8")
    Path("stacks").mkdir()
    write(4)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("branch", "feature")
    write(3)
    git("commit", "-q", "-a", "-m", "second")
    git("checkout", "-q", "feature")
    write(2)
    git("commit", "-q", "-a", "-m", "third")
    write(1)
    return tmp_path


def diff(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["diff", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("base", "quota"), [((), 4), (("--base", "main"), 3), (("--base", "HEAD"), 2), (("--base", "main~1"), 4)]
)
def test_the_base_is_a_revision_and_by_default_where_the_branch_began(
    project: Path, base: tuple[str, ...], quota: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Guaranteed `l4` GPU in sum: {quota + 4} → 5." in diff(capsys, "dev", *base)


def test_on_the_default_branch_what_is_not_committed_is_compared(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("checkout", "-q", "--force", "main")
    assert "**Nothing changes.**" in diff(capsys, "dev")
    write(1)
    assert "Guaranteed `l4` GPU in sum: 7 → 5." in diff(capsys, "dev")


def test_the_base_is_named_and_may_be_the_default_branch_of_any_remote(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("update-ref", "refs/remotes/upstream/main", "main~1")
    git("branch", "-D", "main")
    assert main(["diff", "dev"]) == 0
    shown = capsys.readouterr()
    assert "8 → 5." in shown.out
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "upstream/main"], capture_output=True, check=True
    )
    assert f"compared with upstream/main at {commit.stdout.decode().strip()}\n" in shown.err


def test_without_a_default_branch_the_base_must_be_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("branch", "-D", "main")
    assert main(["diff", "dev"]) == 2
    assert "--base REVISION" in capsys.readouterr().err
    assert "6 → 5." in diff(capsys, "dev", "--base", "HEAD")


def test_a_gate_does_not_pass_because_a_commit_was_compared_with_itself(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("checkout", "-q", "--force", "main")
    assert main(["diff", "dev", "--fail-on", "loss"]) == 2
    assert "--base HEAD~1" in capsys.readouterr().err
    assert main(["diff", "dev", "--fail-on", "loss", "--base", "HEAD~1"]) == 1
    write(1)
    assert main(["diff", "dev", "--fail-on", "loss"]) == 1


def test_a_stack_is_found_from_a_directory_below(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    assert "8 → 5." in diff(capsys, "dev")
    assert "8 → 5." in diff(capsys, "../stacks/Pulumi.dev.yaml")


def test_a_new_stack_has_no_base_and_a_deleted_one_no_head(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(FILE).rename("stacks/Pulumi.other.yaml")
    assert "2 teams gain quota" in diff(capsys, "other")
    assert "removed, with namespace" in diff(capsys, "dev")
    assert "removed, with namespace" in diff(capsys, "dev=none", "--base", "main")
    assert main(["diff", "neither"]) == 2
    assert "Pulumi.neither.yaml: there is no such stack file" in capsys.readouterr().err


def test_several_stacks_share_one_revision(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(FILE).read_text(encoding="utf-8").replace("name: dev", "name: two")
    Path("stacks/Pulumi.two.yaml").write_text(text, encoding="utf-8")
    shown = diff(capsys, "dev", "two", "--base", "main")
    assert shown.index("`dev`") < shown.index("`two`")
    assert "7 → 5." in shown
    assert "0 → 5." in shown


def test_without_a_stack_every_stack_that_the_change_touches_is_reported(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("gone", "same"):
        Path(f"stacks/Pulumi.{name}.yaml").write_text(template(name, Provider.GKE), encoding="utf-8")
    git("add", "stacks/Pulumi.gone.yaml", "stacks/Pulumi.same.yaml")
    git("commit", "-q", "-m", "fourth")
    Path("stacks/Pulumi.gone.yaml").unlink()
    Path("stacks/Pulumi.new.yaml").write_text(template("new", Provider.EKS), encoding="utf-8")

    shown = diff(capsys, "--base", "HEAD")
    assert shown.startswith("**4 stacks: 3 change, 1 do not change. Not touched: `same`.**\n")
    assert re.findall(r"^## Muster preview: `(\w+)`", shown, re.MULTILINE) == ["dev", "gone", "new"]
    stacks = json.loads(diff(capsys, "--base", "HEAD", "--json"))["stacks"]
    changed = {each["stack"]: each["changed"] for each in stacks}
    assert changed == {"dev": True, "gone": True, "new": True, "same": False}

    assert main(["diff", "--base", "HEAD", "--fail-on", "loss"]) == 1
    failed = capsys.readouterr().err
    assert "dev: team team-a loses 1 GPU" in failed
    assert "gone: team team-a is removed" in failed


def test_without_a_stack_a_change_of_none_is_named_as_such(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("checkout", "-q", "--force", "feature")
    assert diff(capsys, "--base", "HEAD") == "**Nothing changes. Not touched: `dev`.**\n"


def test_without_a_repository_the_base_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stacks").mkdir()
    write(1)
    assert main(["diff", FILE]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert "is not in a git repository" in error
    assert "--base none" in fix
    assert "2 teams gain quota" in diff(capsys, FILE, "--base", "none")


@pytest.mark.parametrize(
    ("quota", "reasons", "code"), [(1, ["loss"], 1), (1, ["preemption"], 0), (4, ["loss"], 0), (1, [], 0)]
)
def test_fail_on_ends_with_1_when_the_change_contains_it(
    project: Path, quota: int, reasons: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write(quota)
    options = [part for reason in reasons for part in ("--fail-on", reason)]
    assert main(["diff", "dev", *options]) == code
    shown = capsys.readouterr()
    assert shown.out.startswith("## Muster preview: `dev`")
    assert ("team-a loses 3 GPU" in shown.err) is bool(code)


def test_fail_on_replace_needs_a_plan(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "dev", "--fail-on", "replace"]) == 2
    assert "--head-plan" in capsys.readouterr().err
