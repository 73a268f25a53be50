"""The error that every command reports in the same way, and the exit codes of all commands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar, Final


class ExitCode(IntEnum):
    """What the process of a command ends with."""

    DONE = 0
    FOUND = 1
    UNUSABLE = 2
    OUTSIDE = 3
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What `--help` prints beside the number."""
        return _MEANINGS[self]


_MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.DONE: "Done.",
        ExitCode.FOUND: "A negative result: a violation, a failed check, a change that --fail-on names.",
        ExitCode.UNUSABLE: "The options or the input cannot be used.",
        ExitCode.OUTSIDE: "Something outside Muster failed: a cluster, a cloud, a registry, a program.",
        ExitCode.INTERRUPTED: "Interrupted by Ctrl-C or SIGTERM.",
    }
)


class MusterError(Exception):
    """What went wrong and how to fix it. The command line prints both and exits with `exit_code`."""

    default_exit_code: ClassVar[ExitCode] = ExitCode.UNUSABLE

    def __init__(self, message: str, *, fix: str = "", exit_code: ExitCode | None = None) -> None:
        super().__init__(f"{message} Fix: {fix}" if fix else message)
        self.message = message
        self.fix = fix
        self.exit_code = self.default_exit_code if exit_code is None else exit_code
