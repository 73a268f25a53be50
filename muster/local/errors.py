"""The one error that the local cluster shows to people: where, what, and how to fix it."""

from __future__ import annotations


class LocalClusterError(Exception):
    """A failure with its remedy; printed as one line, never as a traceback.

    `code` is the exit code of the command: 1 failed, 2 wrong use, 3 no such local cluster.
    """

    def __init__(self, where: str, what: str, *, fix: str, code: int = 1) -> None:
        super().__init__(f"{where}: {what}; {fix}")
        self.where = where
        self.what = what
        self.fix = fix
        self.code = code
