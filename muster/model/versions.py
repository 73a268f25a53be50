"""Versions as comparable numbers."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+].*)?")


class Version(NamedTuple):
    """`v1.6.0` is (1, 6, 0); what follows a minus or plus is left out."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def of(cls, text: str) -> "Version":
        """ValueError when the text is no version."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no version")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        return ".".join(map(str, self))
