"""An update of a project: it shows what the templates changed, never what the user changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.distribution import wheel_name
from muster.errors import MusterError
from muster.scaffold import project
from muster.scaffold import project as templates
from muster.scaffold.project import FILE, Project, Target, compare, read_record, write_project

OLD = Project(target=Target.EKS, stacks=("dev", "prod"), version="1.0.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_project(OLD, tmp_path, force=False)
    return tmp_path


def newer(monkeypatch: pytest.MonkeyPatch, name: str, added: str) -> None:
    """A version whose template of `name` has `added` at its end."""
    original = templates.files

    def files(project: Project) -> dict[str, str]:
        found = original(project)
        return {**found, name: found.get(name, "") + added}

    monkeypatch.setattr(project, "files", files)


def test_same_version_changes_nothing_whatever_the_user_edited(folder: Path) -> None:
    for name in ("README.md", ".github/workflows/muster-up.yml", "stacks/Pulumi.dev.yaml"):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write("# mine\n")
    (folder / ".gitlab" / "muster.yml").unlink()
    assert not compare(folder, version="1.0.0").changes


def test_new_version_is_a_change_of_one_line_in_the_requirements(folder: Path) -> None:
    (change,) = compare(folder, version="2.0.0").changes
    assert (change.path, change.is_edited) == ("requirements.txt", False)
    lines = [line for line in change.diff() if line[0] in "+-"]
    assert lines[2:] == [
        f"{sign}file:./wheels/{wheel_name(version)}\n" for sign, version in (("-", "1.0.0"), ("+", "2.0.0"))
    ]


def test_version_that_the_user_raised_by_hand_is_no_difference(folder: Path) -> None:
    file = folder / "requirements.txt"
    file.write_text(file.read_text(encoding="utf-8").replace("1.0.0", "2.0.0"), encoding="utf-8")
    assert not compare(folder, version="2.0.0").changes


def test_applied_update_is_complete_and_remembers_the_choices(folder: Path) -> None:
    compare(folder, version="2.0.0").apply()
    assert wheel_name("2.0.0") in (folder / "requirements.txt").read_text(encoding="utf-8")
    assert not compare(folder, version="2.0.0").changes
    assert read_record(folder).project == Project(target=Target.EKS, stacks=("dev", "prod"), version="2.0.0")


def test_edited_file_is_kept_and_the_new_text_lies_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = folder / ".github" / "workflows" / "muster-up.yml"
    text = mine.read_text(encoding="utf-8").replace("FILL-IN", "0" * 40)
    mine.write_text(text, encoding="utf-8")
    newer(monkeypatch, ".github/workflows/muster-up.yml", "# new\n")
    found = compare(folder, version="1.0.0")
    assert [(change.path, change.is_edited) for change in found.changes] == [
        (".github/workflows/muster-up.yml", True)
    ]
    found.apply()
    assert mine.read_text(encoding="utf-8") == text
    assert mine.with_name("muster-up.yml.new").read_text(encoding="utf-8").endswith("# new\n")
    assert not compare(folder, version="1.0.0").changes


def test_file_that_only_the_new_version_has_is_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer(monkeypatch, "new.txt", "hello\n")
    found = compare(folder, version="1.0.0")
    assert "".join(found.changes[0].diff()) == "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"
    found.apply()
    assert (folder / "new.txt").read_text(encoding="utf-8") == "hello\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "has no .muster.yaml"),
        ("[", "cannot be read"),
        ("provider: moon\nstacks: [dev]\nversion: 1\nfiles: {}\n", "'moon' is not a valid Target"),
        ("provider: gke\nstacks: []\nversion: 1\nfiles: {}\n", "lists no stack"),
        ("- a\n", "cannot be read"),
        ("provider: gke\nstacks: [dev]\nversion: 1\nfiles: 3\n", "cannot be read"),
    ],
)
def test_folder_without_a_usable_record_is_refused_with_a_fix(
    text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(MusterError, match=said) as raised:
        compare(tmp_path, version="1.0.0")
    assert raised.value.fix
