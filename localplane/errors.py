"""The one error that the local plane shows to people: where, what, and how to fix it."""

from __future__ import annotations


class PlaneError(Exception):
    """A failure with its remedy; printed as one line, never as a traceback."""

    def __init__(self, where: str, what: str, *, fix: str) -> None:
        super().__init__(f"{where}: {what}; {fix}")
        self.where = where
        self.what = what
        self.fix = fix
