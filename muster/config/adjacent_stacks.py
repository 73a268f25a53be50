"""Reads which clusters the other stack files of a folder describe.

Responsible for which files are stack files. A file that cannot be read is skipped: the check of that stack
reports it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.config.document import NAMESPACE
from muster.config.extends import EXTENDS
from muster.config.project import load_document
from muster.validation.duplicate_clusters import ClusterIdentity

_PREFIX: Final = "Pulumi."
_ENDING: Final = ".yaml"


def load_adjacent_clusters(source: str, *, naming: str) -> Mapping[str, ClusterIdentity]:
    """Stack name -> cluster, for the stack files beside `source` that may name a cluster `naming`."""
    path = Path(source)
    if not _is_stack_file(path) or not path.is_file():
        return {}
    found: dict[str, ClusterIdentity] = {}
    for other in sorted(path.parent.glob(f"{_PREFIX}*{_ENDING}")):
        if (
            other.name != path.name
            and _may_name(naming, _text(other))
            and (identity := _identity(other)) is not None
        ):
            found[other.name.removeprefix(_PREFIX).removesuffix(_ENDING)] = identity
    return found


def _is_stack_file(path: Path) -> bool:
    return path.name.startswith(_PREFIX) and path.name.endswith(_ENDING)


def _may_name(cluster: str, text: str) -> bool:
    """A stack that extends another file may have its cluster from there."""
    return cluster in text or EXTENDS in text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _identity(path: Path) -> ClusterIdentity | None:
    cluster = load_document(path).values.get(f"{NAMESPACE}cluster")
    if not isinstance(cluster, Mapping):
        return None
    fields = {key: cluster.get(key) for key in ("provider", "region", "name", "project")}
    return ClusterIdentity(**{key: value if isinstance(value, str) else "" for key, value in fields.items()})
