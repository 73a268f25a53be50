"""The error for a stack file that cannot be used, and the format of a violation.

A violation is reported with file, line, path, message and fix. All violations are reported at once.
"""

from collections.abc import Mapping, Sequence

from muster.errors import MusterError
from muster.model.violations import Violation


class ConfigError(MusterError):
    """A stack with violations. `line` finds a violation's line, if there is a file."""

    def __init__(self, violations: Sequence[Violation], *, source: str, lines: Mapping[str, int]) -> None:
        self.violations = list(violations)
        self.source = source
        self._lines = lines
        super().__init__("\n".join(self.describe(violation) for violation in self.violations))

    def line(self, violation: Violation) -> int | None:
        """The line, from 1, of the violation's path or of its nearest parent in the file."""
        return nearest_line(self._lines, violation.path)

    def describe(self, violation: Violation) -> str:
        return describe(violation, source=self.source, line=self.line(violation))


def describe(violation: Violation, *, source: str, line: int | None) -> str:
    """`stacks/Pulumi.dev.yaml:14: muster:pools.l4.capacity: message` and, indented below, the fix."""
    place = source if line is None else f"{source}:{line}"
    return f"{place}: {violation.path}: {violation.message}\n    fix: {violation.fix}"


def nearest_line(lines: Mapping[str, int], path: str) -> int | None:
    """The line of `path` or of its nearest parent in the file."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None
