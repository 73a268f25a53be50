"""Checks stack files, and writes the findings for the terminal, as JSON, or on the lines of a pull request.

Responsible for the formats.

github  workflow commands, which GitHub Actions shows on the line:
        https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
gitlab  a Code Quality report (`artifacts:reports:codequality`), which GitLab shows on the line:
        https://docs.gitlab.com/ci/testing/code_quality/
"""

import gc
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from muster.config.document import Document, in_order, shortened
from muster.config.project import load_document
from muster.config.stack import examine
from muster.model.quantities import many
from muster.model.violations import Violation
from muster.printable import sanitize_line
from muster.validation.clusters import placeholder_rules
from muster.validation.tenancy import unowned_rules


class Format(StrEnum):
    """The output formats."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation and its line, from 1. A file that is not YAML has its violation in the first line."""

    file: str
    line: int
    violation: Violation


@dataclass(frozen=True, slots=True)
class FileResult:
    """A file and its findings."""

    file: str
    findings: tuple[Finding, ...]
    is_missing: bool = False

    @property
    def errors(self) -> int:
        return sum(each.violation.level == "error" for each in self.findings)


def check_file(path: Path) -> FileResult:
    """Check one stack file, offline. Paths are relative to the working directory, as annotations require."""
    with _collector_paused():
        document = load_document(path)
        found = found_in(document)
        places = [document.place(each.path) for each in found]
    shown = {file: _shown(Path(file)) for file, _ in places}
    findings = (
        Finding(shown[file], line or 1, each) for each, (file, line) in zip(found, places, strict=True)
    )
    return FileResult(_shown(path), tuple(findings))


def missing_file(path: Path, message: str, *, fix: str) -> FileResult:
    """The result of a file that is not there: one mistake."""
    file = _shown(path)
    return FileResult(file, (Finding(file, 1, Violation(file, message, fix)),), is_missing=True)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A stack is a tree. The collector would walk a large one again and again, and free nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _shown(path: Path) -> str:
    here = Path.cwd()
    return (path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path).as_posix()


def found_in(document: Document) -> list[Violation]:
    """Every violation of a stack file, in the order of a report: also what is not filled in, and what has no
    quota.
    """
    stack, violations = examine(document)
    if stack is not None:
        violations += [*placeholder_rules(stack), *unowned_rules(stack)]
    return in_order(violations, document)


def format_findings(checked: Sequence[FileResult], how: Format) -> str:
    """The findings of all files as one text, which ends with a newline unless it is empty."""
    return _WRITERS[how](checked)


def _text(checked: Sequence[FileResult]) -> str:
    lines = []
    for each in checked:
        for finding in _shortened(each):
            level = "warning: " if finding.violation.level == "warning" else ""
            path = "" if finding.violation.path == finding.file else f"{finding.violation.path}: "
            message = f"{path}{finding.violation.message}"
            lines += [f"{level}{_plain(finding.file)}:{finding.line}: {_plain(message)}"]
            lines += [f"    fix: {_plain(finding.violation.fix)}"]
        if not each.is_missing:
            verdict = many(each.errors, "mistake") if each.errors else "valid"
            lines.append(f"{_plain(each.file)}: {verdict}")
    return "\n".join([*lines, ""])


def _shortened(result: FileResult) -> list[Finding]:
    places = {each.violation.path: (each.file, each.line) for each in result.findings}
    short = shortened(each.violation for each in result.findings)
    return [Finding(*places[each.path], each) for each in short]


def _json(checked: Sequence[FileResult]) -> str:
    files = [
        {
            "file": each.file,
            "valid": not each.errors,
            "violations": [_record(found, checked=each.file) for found in each.findings],
        }
        for each in checked
    ]
    return json.dumps({"files": files}, indent=2) + "\n"


def _record(finding: Finding, *, checked: str) -> dict[str, object]:
    """A finding; it names its file where that is not the stack's own."""
    violation = finding.violation
    elsewhere = {} if finding.file == checked else {"file": finding.file}
    return {
        **elsewhere,
        "path": violation.path,
        "line": finding.line,
        "message": violation.message,
        "fix": violation.fix,
        "level": violation.level,
    }


def _github(checked: Sequence[FileResult]) -> str:
    lines = []
    for each in checked:
        for finding in _shortened(each):
            violation = finding.violation
            place = f"file={_property(finding.file)},line={finding.line},title={_property(violation.path)}"
            message = _data(_plain(violation.message)) + "%0A" + _data(f"Fix: {_plain(violation.fix)}")
            lines.append(f"::{violation.level} {place}::{message}\n")
    return "".join(lines)


def _data(text: str) -> str:
    """Escaped like the runner's own toolkit does. Otherwise a name could end the command and start
    another.
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_plain(text)).replace(":", "%3A").replace(",", "%2C")


_SEVERITY: Final = MappingProxyType({"error": "major", "warning": "minor"})


def _gitlab(checked: Sequence[FileResult]) -> str:
    seen: dict[str, int] = {}
    found = [_issue(finding, seen) for each in checked for finding in each.findings]
    return json.dumps(found, indent=2) + "\n"


def _issue(finding: Finding, seen: dict[str, int]) -> dict[str, object]:
    """GitLab finds new issues by their fingerprint, so it has to be unique and does not include the line."""
    violation = finding.violation
    identity = "\0".join((finding.file, violation.path, violation.message))
    seen[identity] = seen.get(identity, 0) + 1
    fingerprint = hashlib.sha256(f"{identity}\0{seen[identity]}".encode("utf-8", "backslashreplace"))
    return {
        "description": _plain(f"{violation.path}: {violation.message} Fix: {violation.fix}"),
        "check_name": "muster-stack",
        "fingerprint": fingerprint.hexdigest(),
        "severity": _SEVERITY[violation.level],
        "location": {"path": finding.file, "lines": {"begin": finding.line}},
    }


def _plain(text: str) -> str:
    return sanitize_line(text, longest=2000)


_WRITERS: Final[Mapping[Format, Callable[[Sequence[FileResult]], str]]] = MappingProxyType(
    {Format.TEXT: _text, Format.JSON: _json, Format.GITHUB: _github, Format.GITLAB: _gitlab}
)
