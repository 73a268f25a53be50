"""A snapshot as JSON, as `muster snapshot` writes it.

Unlike an object of a cluster, a file is the user's input: a field of an unexpected type is an error that
names it.
"""

import json
from pathlib import Path
from typing import Final

from muster.live.dataclass_json import MisfitError, from_json, to_json
from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.live.snapshot.snapshot import Snapshot
from muster.whole_file import read_at_most

_VERSION: Final = 1
# Of 10,000 jobs it is about 30 MB.
_MAX_BYTES: Final = 512 * 1024 * 1024
_HOW: Final = "record it again with `muster snapshot --kubeconfig FILE > SNAPSHOT`."


class SnapshotError(PreviewError):
    """A file that is not a snapshot."""


def format_snapshot(snapshot: Snapshot) -> str:
    """The text of the file. Equal snapshots give equal bytes."""
    return json.dumps({"version": _VERSION, **to_json(snapshot)}, indent=1) + "\n"


def load_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file; SnapshotError when it is not one."""
    try:
        if (content := read_at_most(path, _MAX_BYTES)) is None:
            raise SnapshotError(f"{path}: larger than {_MAX_BYTES // 2**20} MiB.", fix=_HOW)
        text = content.decode()
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}.", fix=_HOW) from None
    except UnicodeDecodeError:
        raise SnapshotError(f"{path}: not UTF-8 text.", fix=_HOW) from None
    return parse_snapshot(text, source=str(path))


def parse_snapshot(text: str, *, source: str) -> Snapshot:
    """The snapshot in a text; SnapshotError when it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError(f"{source}: not JSON, or incomplete.", fix=_HOW) from None
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise SnapshotError(f"{source}: not a snapshot of version {_VERSION}.", fix=_HOW)
    try:
        return from_json(
            Snapshot, {key: value for key, value in found.items() if key != "version"}, "snapshot"
        )
    except MisfitError as error:
        raise SnapshotError(f"{source}: {sanitize_line(str(error))}", fix=_HOW) from None
