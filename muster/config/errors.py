"""What a stack file that cannot be used says.

Decides how mistakes are told: file, line, path, message, fix, every one of them at once.
"""

from collections.abc import Mapping, Sequence

from muster.errors import MusterError
from muster.model.violations import Violation


class ConfigError(MusterError):
    """A stack that is not one. `violations` are all its mistakes; `line` finds one in the file, where there
    is a file.
    """

    def __init__(self, violations: Sequence[Violation], *, source: str, lines: Mapping[str, int]) -> None:
        self.violations = list(violations)
        self.source = source
        self._lines = lines
        super().__init__("\n".join(self.describe(violation) for violation in self.violations))

    def line(self, violation: Violation) -> int | None:
        """The line, from 1, of the place the violation is about, or of the nearest thing around it."""
        return nearest_line(self._lines, violation.path)

    def describe(self, violation: Violation) -> str:
        return describe(violation, source=self.source, line=self.line(violation))


def describe(violation: Violation, *, source: str, line: int | None) -> str:
    """`stacks/Pulumi.dev.yaml:14: muster:pools.l4.capacity: message` and, indented below, the fix."""
    place = source if line is None else f"{source}:{line}"
    return f"{place}: {violation.path}: {violation.message}\n    fix: {violation.fix}"


def nearest_line(lines: Mapping[str, int], path: str) -> int | None:
    """The line of `path` or of its nearest parent that stands in the file."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None
