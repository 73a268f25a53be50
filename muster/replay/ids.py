"""Ids of recorded jobs: keyed hashes, so that a recording does not name objects of the cluster.

The key lies beside the recording and is not part of it: a recorder needs it to go on with its file.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from muster.replay.errors import RecordingError

_ENDING: Final = ".key"
_BYTES: Final = 32
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Ids:
    key: bytes = field(repr=False)

    @classmethod
    def create(cls, recording: Path) -> Self:
        """A new key, in a file beside the recording that only its owner can read. RecordingError when
        there is a key already: older parts of the recording can be continued with no other.
        """
        file, key = _file(recording), secrets.token_bytes(_BYTES)
        try:
            file.touch(mode=0o600, exist_ok=False)
            file.write_text(key.hex() + "\n", encoding="ascii")
        except FileExistsError:
            raise RecordingError(
                f"{recording}: the file is missing, but its key {file.name} exists.",
                fix="put the recording back to continue it, remove the key, or record into another file.",
            ) from None
        except OSError as error:
            raise RecordingError(
                f"{file}: cannot be written: {error.strerror}.", fix="name a file in a folder that exists."
            ) from None
        return cls(key)

    @staticmethod
    def discard(recording: Path) -> None:
        """Remove the key of a recording that could not be begun."""
        _file(recording).unlink(missing_ok=True)

    @classmethod
    def load(cls, recording: Path) -> Self:
        """The key of a recording that is continued; RecordingError without it."""
        file = _file(recording)
        try:
            return cls(bytes.fromhex(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            raise RecordingError(
                f"{file}: the key of {recording.name} is missing or unreadable.",
                fix="put the key beside the recording, or record into another file.",
            ) from None

    def of(self, uid: str) -> str:
        return hmac.new(self.key, uid.encode(), hashlib.sha256).hexdigest()[:_DIGITS]


def tie(uid: str) -> int:
    """The first 16 bits of a UID: Kueue compares UIDs where jobs were created in the same second."""
    try:
        return int(uid[:4], 16)
    except ValueError:
        return 0


def _file(recording: Path) -> Path:
    return recording.with_name(recording.name + _ENDING)
