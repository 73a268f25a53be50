"""The error that every command reports in the same way, and the exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process of a command ends with."""

    DONE = 0
    """The command did what it was asked to do."""
    FOUND = 1
    """A negative result: violations, a failed check, a difference that `--fail-on` names."""
    UNUSABLE = 2
    """The options or the input cannot be used."""
    OUTSIDE = 3
    """Something outside Muster failed: a cluster, a cloud, a registry, a program."""
    INTERRUPTED = 130
    """Ctrl-C."""


class MusterError(Exception):
    """What went wrong and how to fix it. The command line prints both and exits with `exit_code`."""

    def __init__(self, message: str, *, fix: str = "", exit_code: ExitCode = ExitCode.UNUSABLE) -> None:
        super().__init__(f"{message}\nFix: {fix}" if fix else message)
        self.message = message
        self.fix = fix
        self.exit_code = exit_code
