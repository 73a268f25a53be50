"""The report on a terminal: words, colours and bars there, Markdown for every program."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from muster.config.edit import template
from muster.model.regions import Provider
from muster.preview.document import Report, Section, StackReport, Table, UntrustedText, row
from muster.preview.terminal import format_terminal

_OLD = "team-a: {quota: {l4: 4}"


@pytest.fixture
def stacks(tmp_path: Path) -> list[str]:
    """The arguments of a diff in which two GPUs move from team-b to team-a."""
    text = template("prod", Provider.EXISTING)
    changed = text.replace(_OLD, "team-a: {quota: {l4: 6}").replace("quota: {l4: 4}\n", "quota: {l4: 2}\n")
    assert changed.count("l4: 2}\n") > text.count("l4: 2}\n")
    for name, content in (("base", text), ("Pulumi.prod", changed)):
        (tmp_path / f"{name}.yaml").write_text(content)
    return ["diff", str(tmp_path / "Pulumi.prod.yaml"), "--base", str(tmp_path / "base.yaml")]


def _on_terminal(arguments: list[str], **variables: str) -> str:
    """What `muster` writes to a terminal."""
    own = {
        key: value for key, value in os.environ.items() if key not in ("CI", "NO_COLOR", "TERM", "COLUMNS")
    }
    reader, writer = pty.openpty()
    try:
        command = [sys.executable, "-m", "muster", *arguments]
        environment = {**own, "TERM": "xterm", "COLUMNS": "120", **variables}
        subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, check=True)
    finally:
        os.close(writer)
    text = b""
    try:
        while found := os.read(reader, 65536):
            text += found
    except OSError:  # The other end is closed and all is read.
        pass
    os.close(reader)
    return text.decode().replace("\r\n", "\n")


def test_a_terminal_gets_words_colours_and_bars(stacks: list[str]) -> None:
    text = _on_terminal(stacks)
    assert "needs review" in text
    assert "\x1b[31mteam-b -2 L4\x1b[0m" in text
    assert "█\x1b[31m▒" in text
    assert not any(tag in text for tag in ("<", "**", "| ---", "##"))
    assert "More with --details: The queue tree." in text


@pytest.mark.parametrize("command", ["diff", "demo"])
def test_80_columns_have_the_quotas_in_one_table_with_bars(command: str, stacks: list[str]) -> None:
    text = _on_terminal(stacks if command == "diff" else [command], COLUMNS="80", NO_COLOR="1")
    assert "\x1b" not in text
    answer = text.rpartition("$ muster diff prod\n\n")[2]
    assert answer.startswith("prod: needs review (1 loss)\nteam-b -2 L4; team-a +2 L4\n")
    report = text[text.index("prod: needs") : text.index("More with")].splitlines()
    assert max(map(len, report)) <= 80
    (loss,) = (line.split() for line in report if line.startswith("  team-b "))
    assert loss[:7] == ["team-b", "research", "l4", "GPU", "4", "→", "2"]
    assert loss[-1].startswith("██▒")


def test_a_narrow_terminal_wraps_names_and_leaves_out_what_matters_least() -> None:
    cells = row(UntrustedText("a-team-with-a-very-long-name"), "l4 GPU", "14 → 12", "unlimited")
    table = Table(("Team", "Pool", "Quota", "May lend"), (cells,), ("Quota",), minor=("May lend",))
    report = Report((StackReport(UntrustedText("prod"), (("sum",),), (Section("Quotas", 1, (table,)),)),))

    def shown(columns: int) -> list[str]:
        text = format_terminal(report, columns=columns, has_colour=False, has_details=False)
        return [line.strip() for line in text.splitlines()[4:-1]]

    assert shown(80)[1] == "a-team-with-a-very-long-name  l4 GPU  14 → 12  unlimited"
    assert shown(40)[1:] == [
        "a-team-with-a-very-  l4 GPU  14 → 12",
        "long-name",
        "A wider terminal also shows: May lend.",
    ]


def test_details_show_what_is_folded(stacks: list[str]) -> None:
    assert "team-a (more): l4 4 → 6" in _on_terminal([*stacks, "--details"])


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"TERM": "dumb"}])
def test_ci_gets_markdown_on_its_terminal(stacks: list[str], variables: dict[str, str]) -> None:
    assert _on_terminal(stacks, **variables).startswith("## Muster preview: `prod`")


def test_a_pipe_gets_markdown(stacks: list[str]) -> None:
    command = [sys.executable, "-m", "muster", *stacks]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("## Muster preview: `prod`")
    assert "<details>" in found.stdout
