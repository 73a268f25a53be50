"""Each mistake of mistakes.yaml gets its answer, at its line, and no other one."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.cli import main
from muster.config import ConfigError, load
from muster.config.document import nearest_line, parse_text
from muster.config.stack import examine
from muster.model.machines import MACHINES
from muster.preview.validate import found_in

_FILE: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text())
_MISTAKES: Final[list[dict[str, Any]]] = _FILE["mistakes"]
_SOURCE: Final = "stack.yaml"


def test_the_stacks_have_no_mistake() -> None:
    for name, text in _FILE["stacks"].items():
        assert [str(each) for each in found_in(parse_text(text, source=name)) if each.level == "error"] == []


@pytest.mark.parametrize("mistake", _MISTAKES, ids=lambda each: each["in"].strip())
def test_a_mistake_gets_its_answer(mistake: dict[str, Any]) -> None:
    before = _FILE["stacks"][mistake.get("of", "gke")]
    old, _, new = mistake["in"].partition(" -> ")
    assert before.count(old) >= 1, "the stack has no such text"
    after = before.replace(old, new, 1)
    document = parse_text(after, source=_SOURCE)
    found = found_in(document)
    errors = [each for each in found if each.level == "error"]
    level = "warning" if mistake.get("warns") else "error"
    expected = 0 if mistake.get("warns") else mistake.get("errors", 1)
    shown = "\n".join(f"{nearest_line(document.lines, each.path)}: {each}" for each in found)
    path = mistake["at"] or _SOURCE
    here = [each for each in found if each.path == path and each.level == level]
    assert here, shown
    assert len(errors) == expected, shown
    (answer,) = here
    assert nearest_line(document.lines, path) == mistake.get("line", _line(before, after)), shown
    for word in mistake.get("says", ()):
        assert word in answer.message
    for word in mistake.get("fix", ()):
        assert word in answer.fix
    for word in mistake.get("not", ()):
        assert word not in answer.fix


def _line(before: str, after: str) -> int:
    """Where the two begin to differ, or the first word after that."""
    pairs = enumerate(zip(before, after, strict=False))
    index = next((i for i, (a, b) in pairs if a != b), len(before))
    while after[index].isspace():
        index += 1
    return after.count("\n", 0, index) + 1


@pytest.mark.parametrize(
    ("short", "machine"),
    [
        ("l4", "g2-standard-4"),
        ("nvidia-t4", "n1-standard-4"),
        ("t4", "n1-standard-4"),
        ("a100", "a2-highgpu-1g"),
        ("a100-40gb", "a2-highgpu-1g"),
        ("a100-80gb", "a2-ultragpu-1g"),
        ("h100", "a3-highgpu-8g"),
        ("nvidia-h100", "a3-megagpu-8g"),
        ("h200", "a3-ultragpu-8g"),
        ("b200", "a4-highgpu-8g"),
    ],
)
def test_a_short_name_is_the_accelerator_of_the_machine(short: str, machine: str) -> None:
    named = MACHINES[machine].accelerator
    counts = MACHINES[machine].gpu_counts
    count = f"\n      gpusPerNode: {counts[0]}" if len(counts) > 1 else ""
    text = _FILE["stacks"]["gke"].replace("g2-standard-4", f"{machine}{count}")
    short_stack, found = examine(parse_text(text.replace("nvidia-l4", short), source=_SOURCE))
    full_stack, _ = examine(parse_text(text.replace("nvidia-l4", str(named)), source=_SOURCE))
    assert [str(each) for each in found if each.level == "error"] == []
    assert short_stack == full_stack
    assert short_stack is not None


def test_errors_come_first_and_by_line() -> None:
    text = _FILE["stacks"]["gke"].replace("weight: 2", "wieght: 2").replace("queued", "queud")
    document = parse_text(text.replace("{l4: 6}", "{cpu: 4x}"), source=_SOURCE)
    found = found_in(document)
    levels = [each.level for each in found]
    assert levels == sorted(levels)
    lines = [nearest_line(document.lines, each.path) or 0 for each in found if each.level == "error"]
    assert lines == sorted(lines)
    assert len(lines) > 1


def test_no_more_than_twenty_of_a_kind_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A template that is wrong once is wrong for every team."""
    teams = "".join(f"        team-{number}: {{priorities: [prd]}}\n" for number in range(500))
    path = tmp_path / "Pulumi.many.yaml"
    path.write_text(_FILE["stacks"]["gke"] + teams + "        other: {weight: 0}\n")
    assert main(["validate", str(path)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("priority 'prd' is unknown") == 20
    assert "And 480 more of this kind." in printed
    assert ".other.weight" in printed
    assert "501 mistakes" in printed
    assert main(["validate", "--json", str(path)]) == 1
    assert capsys.readouterr().out.count("'prd' is unknown") == 500


@pytest.mark.parametrize("text", ["config: [1]", "config: {a: ["])
def test_a_file_is_named_once_in_a_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("Pulumi.x.yaml")
    path.write_text(text)
    assert main(["validate", str(path)]) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.count(str(path)) == 1
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).splitlines()[0].count(str(path)) == 1
