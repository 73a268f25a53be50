"""`muster diff` pairs files and plans by stack, writes every format, and refuses unusable input."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli import main
from tests.unit.preview.preview_world import LOCAL, PLAN, ROOT, local_without_l4


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    return local_without_l4(tmp_path)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["diff", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["diff", *map(str, arguments)]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


def test_two_files_write_a_comment_to_standard_output(
    changed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = _run(capsys, "--base", LOCAL, changed)
    assert output.startswith("## Muster preview: `local` · ⚠️ Needs review\n\n**`team-a` -1 L4**\n")
    assert "\n- Guaranteed `l4` GPU in sum: 2 → 1.\n" in output
    assert "1 team loses quota: `team-a`." in output


def test_mermaid_is_for_the_jobs_of_a_forge_that_draws_it(
    changed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    assert "```text\nresearch\n  team-a (less): l4 1 → 0" in _run(capsys, "--base", LOCAL, changed)
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.setenv(name, "true")
        assert "```mermaid\n" in _run(capsys, "--base", LOCAL, changed)
        monkeypatch.delenv(name)


def test_one_base_and_one_head_are_one_stack_whatever_they_are_called(
    changed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = changed.with_name("base-from-main.yaml")
    base.write_text(LOCAL.read_text(encoding="utf-8"), encoding="utf-8")
    assert "loses quota" in _run(capsys, "--base", base, changed)


def test_plans_alone_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(PLAN.read_text(encoding="utf-8"))
    document["steps"], document["config"]["muster:priorities"] = (
        document["steps"][:1],
        '{"dev":100,"prod":1000}',
    )
    base = tmp_path / "base.json"
    base.write_text(json.dumps(document), encoding="utf-8")
    output = _run(capsys, "--base-plan", base, "--head-plan", PLAN)
    assert "| `priorities` | `1000 prod, 100 dev` | `1000 prod, 200 dev` |" in output
    assert "<summary>Resources replaced or deleted</summary>" in output


def test_what_base_would_change_as_well_is_listed_separately(capsys: pytest.CaptureFixture[str]) -> None:
    output = _run(capsys, "--base", LOCAL, LOCAL, "--base-plan", PLAN, "--head-plan", PLAN)
    assert "**Nothing changes.**" in output
    assert "<summary>Resources that change without this pull request</summary>" in output
    assert "<summary>Resources replaced" not in output


def test_several_stacks_are_paired_by_name_and_listed_in_order(
    changed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = _run(
        capsys,
        "--base",
        f"b={LOCAL}",
        "--base",
        f"gone={LOCAL}",
        f"new={LOCAL}",
        f"b={changed}",
        "--head-plan",
        f"b={PLAN}",
    )
    assert re.findall(r"^## .*`(.*)` · ", output, re.MULTILINE) == ["b", "gone", "new"]
    assert output.index("<summary>Resources replaced") < output.index("## Muster preview: `gone`")
    assert output.count("removed, with namespace") == 1


def test_a_new_stack_is_compared_with_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "2 teams gain quota: `team-a`, `team-b`" in _run(capsys, "--base", "none", LOCAL)


def test_a_head_that_is_no_stack_is_reported_with_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Pulumi.local.yaml"
    path.write_text(LOCAL.read_text(encoding="utf-8").replace("weight: 2", "weight: two"), encoding="utf-8")
    assert main(["diff", str(path), "--base", str(LOCAL)]) == 2
    found = capsys.readouterr()
    output = found.out
    error, fix = found.err.splitlines()
    assert error.startswith(
        "Error: The head stack file does not validate: local (1 mistake). The first mistake: line "
    )
    assert fix == "Fix: correct the mistakes, which the report and `muster validate STACK` list."
    assert "**Refused: 1 mistake in the stack's description.**" in output
    assert re.search(r"- `line \d+: muster:departments\.research\.teams\.team-a\.weight: ", output)


def test_an_engine_error_in_the_middle_is_reported_with_what_was_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(PLAN.read_text(encoding="utf-8"))
    document["diagnostics"] = [
        {"severity": "error", "message": "error: \x1b[31mcannot reach the cluster\x1b[0m"}
    ]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    output = _run(capsys, "--base", LOCAL, LOCAL, "--head-plan", path)
    assert "**The preview failed: the engine stopped" in output
    assert "- `cannot reach the cluster`\n" in output
    assert "<summary>Resources replaced or deleted</summary>" in output


def test_all_three_outputs_are_written_at_once(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outs = {key: changed.with_suffix(f".{key}") for key in ("markdown", "html")}
    named = [part for key, path in outs.items() for part in (f"--{key}", path)]
    output = _run(capsys, "--base", LOCAL, changed, "--head-plan", PLAN, *named, "--json")
    assert outs["markdown"].read_text(encoding="utf-8").startswith("## Muster preview")
    assert outs["html"].read_text(encoding="utf-8").startswith("<!doctype html>")
    stack = json.loads(output)["stacks"][0]
    assert (stack["stack"], stack["changed"]) == ("local", True)
    row = next(each for each in stack["quotas"] if (each["name"], each["pool"]) == ("team-a", "l4"))
    assert row["before"]["quota"] == {"gpus": 1, "cpu": "1", "memory": "2Gi"}
    assert row["after"]["quota"] == {"gpus": 0, "cpu": "0", "memory": "0"}
    assert [each["verb"] for each in stack["resources"]] == ["deleted", "created", "updated", "updated"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", str(LOCAL)], "no stack is named"),
        (["--base", "none", "x=none"], "nothing to compare"),
        (["--base", str(LOCAL), "gone.yaml"], "gone.yaml: there is no such stack file"),
        (["--base", str(LOCAL), "nowhere"], "Pulumi.nowhere.yaml: there is no such stack file"),
        (["--base", "no-such-branch", str(LOCAL)], "--base no-such-branch: is no file and no commit"),
        (["--base", str(LOCAL), str(LOCAL), str(LOCAL)], "names stack 'local' twice"),
        (["--base", str(LOCAL), str(LOCAL), "--head-plan", str(LOCAL)], "not JSON in line 1"),
        (["--base", str(LOCAL), str(LOCAL), "--markdown", "-", "--json"], "standard output takes one"),
        (["--base", str(LOCAL), str(LOCAL), "--html", "/dev/null/x"], "/dev/null/x: "),
    ],
)
def test_bad_input_is_refused_with_its_fix_and_nothing_is_written(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in _refused(capsys, *arguments)


def test_where_there_is_no_project_a_stack_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no stack is named" in _refused(capsys)


def test_a_plan_of_another_program_is_no_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "foreign.json"
    path.write_text('{"config": {"aws:region": "x"}, "steps": []}', encoding="utf-8")
    assert "has no `muster:` configuration" in _refused(capsys, "--base", "none", "--head-plan", path)


def test_the_command_loads_no_pulumi() -> None:
    code = (
        "import sys, muster.cli.commands.diff; print(any(name.startswith('pulumi') for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
