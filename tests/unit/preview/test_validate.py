"""A mistake is shown on its line, in the format and with the escapes of each target."""

import json
import re
from pathlib import Path

import pytest

from muster.cli import main
from muster.preview.validate import Format, check_file, format_findings

# Mistakes in lines 4 and 7; the department's name is an attack on each format.
_WRONG = """\
config:
  muster:cluster: {provider: gke, name: ml, region: us-central1, project: p}
  muster:pools:
    cpu: {machine: e2-standard-9, maxNodes: 20}
    h100: {accelerator: nvidia-h100-80gb, machine: a3-highgpu-8g, capacity: queued, maxNodes: 2}
  muster:departments:
    "x%0A::error::x, y\\e[31m\\n|": {teams: {a: {}}}
"""
_WARNED = """\
config:
  muster:cluster: {provider: existing, name: ml, context: ml, cloud: gke}
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 20}
    h100: {accelerator: nvidia-h100-80gb, machine: a3-highgpu-8g, capacity: queued, maxNodes: 2}
  muster:departments:
    research:
      teams:
        a: {quota: {h100: 3}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.wrong.yaml").write_text(_WRONG, encoding="utf-8")
    (tmp_path / "stacks" / "Pulumi.warned.yaml").write_text(_WARNED, encoding="utf-8")
    return tmp_path


def test_every_stack_file_is_checked_by_default(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 1
    output = capsys.readouterr().out
    assert "stacks/Pulumi.warned.yaml: valid\n" in output
    assert re.search(
        r"^warning: stacks/Pulumi.warned.yaml:9: .*3 GPUs are not whole nodes", output, re.MULTILINE
    )
    assert re.search(r"^stacks/Pulumi.wrong.yaml:4: muster:pools.cpu.machine: ", output, re.MULTILINE)
    assert re.search(r"^stacks/Pulumi.wrong.yaml:7: ", output, re.MULTILINE)
    assert "\x1b" not in output


def test_warnings_alone_pass(folder: Path) -> None:
    assert main(["validate", "stacks/Pulumi.warned.yaml"]) == 0


def test_without_a_stack_file_there_is_nothing_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate"]) == 2
    assert "name the stack files" in capsys.readouterr().err


def test_bytes_that_are_no_utf_8_are_named_by_their_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latin.yaml").write_bytes(b"a: b\nc: \xe9\n")
    assert main(["validate", "latin.yaml"]) == 1
    assert capsys.readouterr().out.startswith("latin.yaml:2: is not UTF-8 text.")


def test_json_tells_the_line_of_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--json"]) == 1
    files = {each["file"]: each for each in json.loads(capsys.readouterr().out)["files"]}
    assert files["stacks/Pulumi.warned.yaml"]["valid"] is True
    assert [each["line"] for each in files["stacks/Pulumi.warned.yaml"]["violations"]] == [9]
    assert files["stacks/Pulumi.wrong.yaml"]["valid"] is False
    wrong = files["stacks/Pulumi.wrong.yaml"]["violations"]
    assert {each["line"] for each in wrong} == {4, 7}
    machine = next(each for each in wrong if each["path"] == "muster:pools.cpu.machine")
    assert machine["level"] == "error"
    assert machine["fix"]


def test_github_sees_one_command_a_mistake_and_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--format", "github"]) == 1
    output = capsys.readouterr().out
    assert "x%250A" in output
    assert "x%0A" not in output
    lines = output.splitlines()
    pattern = r"::(error|warning) file=([^:,]+),line=(\d+),title=([^:,]+)::.+%0AFix: .+"
    found = [match for line in lines if (match := re.fullmatch(pattern, line))]
    assert len(found) == len(lines) >= 3
    assert {(match[1], match[2], int(match[3])) for match in found} == {
        ("warning", "stacks/Pulumi.warned.yaml", 9),
        ("error", "stacks/Pulumi.wrong.yaml", 4),
        ("error", "stacks/Pulumi.wrong.yaml", 7),
    }


def test_gitlab_gets_a_code_quality_report_with_a_fingerprint_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--format", "gitlab"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len({each["fingerprint"] for each in found}) == len(found) >= 3
    for each in found:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert isinstance(each["location"]["lines"]["begin"], int)
        assert not each["location"]["path"].startswith(("/", "./"))


def test_a_fingerprint_stays_when_the_line_moves(folder: Path) -> None:
    def fingerprints() -> list[str]:
        checked = check_file(Path("stacks/Pulumi.warned.yaml"))
        return [each["fingerprint"] for each in json.loads(format_findings([checked], Format.GITLAB))]

    before = fingerprints()
    path = folder / "stacks" / "Pulumi.warned.yaml"
    path.write_text("# a comment\n\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert fingerprints() == before


@pytest.mark.parametrize("how", list(Format))
def test_every_format_reports_invalid_yaml(
    folder: Path, how: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.yaml").write_text("config:\n  a: [1,\n", encoding="utf-8")
    assert main(["validate", "--format", how.value, "broken.yaml"]) == 1
    assert "broken.yaml" in capsys.readouterr().out


def test_a_stack_that_does_not_exist_is_answered_with_those_that_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "Pulumi.yaml").touch()
    answers = []
    for command in (["show", "gone"], ["diff", "gone", "--base", "none"]):
        assert main(command) == 2
        answers.append(capsys.readouterr().err)
    error, fix = answers[0].splitlines()
    assert error == "Error: stacks/Pulumi.gone.yaml: there is no such stack file."
    names = ", ".join(sorted(each.name.split(".")[1] for each in Path("stacks").glob("Pulumi.*.yaml")))
    assert fix == f"Fix: name one of {names}, or a file; `muster new` writes one."
    assert set(answers) == {answers[0]}


@pytest.mark.parametrize("how", list(Format))
def test_a_missing_file_is_a_mistake_among_those_of_the_others(
    folder: Path, how: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--format", how.value, "gone.yaml", "wrong", "warned"]) == 2
    output = capsys.readouterr().out
    assert "there is no such stack file." in output
    assert "name one of warned, wrong, or a file; `muster new` writes one." in output
    assert "pools.cpu.machine" in output
    assert "3 GPUs are not whole nodes" in output


def test_a_missing_file_has_a_fix_and_no_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "gone.yaml"]) == 2
    assert capsys.readouterr().out == (
        "gone.yaml:1: there is no such stack file.\n"
        "    fix: name one of warned, wrong, or a file; `muster new` writes one.\n"
    )


def test_a_path_is_relative_to_the_working_directory(folder: Path) -> None:
    assert check_file(folder / "stacks" / "Pulumi.warned.yaml").file == "stacks/Pulumi.warned.yaml"
