"""Finds actions and images in CI files that are not pinned to a digest.

A tag can be moved to other code after a review; a digest cannot
(https://docs.github.com/en/actions/reference/security/secure-use#using-third-party-actions). A placeholder of
Muster's own files is reported separately: the user has to fill it in.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.live.errors import PreviewError

PLACEHOLDER: Final = "FILL-IN"
_USES: Final = re.compile(r"^\s*(?:-\s+)?uses:\s*[\"']?(?P<what>[^\s\"'#]+)")
_IMAGE: Final = re.compile(r"^\s*(?:-\s+)?(?:image|container):\s*[\"']?(?P<what>[^\s\"'#{\[]+)")
_ACTION: Final = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}\Z", re.ASCII)
_DIGEST: Final = re.compile(r"[\w.:/-]+@sha256:[0-9a-f]{64}\Z", re.ASCII)


class PinError(PreviewError):
    """A file that cannot be read."""


@dataclass(frozen=True, slots=True)
class UnpinnedReference:
    """A reference that is not pinned. Lines are counted from 1."""

    line: int
    what: str
    is_placeholder: bool

    @property
    def fix(self) -> str:
        digest = "its 40-digit commit" if "sha256" not in self.what else "its sha256 digest"
        if self.is_placeholder:
            return f"fill in {digest}, of a release that you have reviewed."
        return f"use {digest} instead of a tag, which can be moved."


def read_unpinned(path: Path) -> tuple[UnpinnedReference, ...]:
    """Every unpinned reference in a workflow or pipeline."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise PinError(f"{path}: cannot be read: {why}.", fix="name a workflow or pipeline file.") from None
    return tuple(_parse_unpinned(text))


def _parse_unpinned(text: str) -> Iterator[UnpinnedReference]:
    for index, line in enumerate(text.splitlines(), start=1):
        for pattern, pinned in ((_USES, _ACTION), (_IMAGE, _DIGEST)):
            found = pattern.match(line)
            if found is None or pinned.match(found["what"]) or found["what"].startswith("./"):
                continue
            yield UnpinnedReference(index, found["what"], PLACEHOLDER in found["what"])
