"""The other stack files beside one, as far as it takes to tell two clusters apart.

Decides which files those are. A file that cannot be read is left to its own stack's reader to refuse.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.config.document import NAMESPACE, read
from muster.validation.duplicate_clusters import Place

_PREFIX: Final = "Pulumi."
_ENDING: Final = ".yaml"


def siblings(source: str, *, naming: str) -> Mapping[str, Place]:
    """Stack -> place, of the stack files beside `source` in which the word `naming` stands."""
    path = Path(source)
    if not _is_stack_file(path) or not path.is_file():
        return {}
    found: dict[str, Place] = {}
    for other in sorted(path.parent.glob(f"{_PREFIX}*{_ENDING}")):
        if other.name != path.name and naming in _text(other) and (place := _place(other)) is not None:
            found[other.name.removeprefix(_PREFIX).removesuffix(_ENDING)] = place
    return found


def _is_stack_file(path: Path) -> bool:
    return path.name.startswith(_PREFIX) and path.name.endswith(_ENDING)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _place(path: Path) -> Place | None:
    cluster = read(path).values.get(f"{NAMESPACE}cluster")
    if not isinstance(cluster, Mapping):
        return None
    said = {key: cluster.get(key) for key in ("provider", "region", "name", "project")}
    return Place(**{key: value if isinstance(value, str) else "" for key, value in said.items()})
