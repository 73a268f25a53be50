"""Field paths as the API server writes them in a conflict, and what an object has there.

`.spec.containers[name="main"].image` is how it names a field, `.metadata.finalizers[="a"]` how it
names the member of a set.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

MISSING: Final[Any] = object()

_SELECTOR = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_PAIR = re.compile(r'([^=,"]*)=("(?:[^"\\]|\\.)*"|[^,]+)')


def holds(body: Any, path: str) -> bool:
    """Whether `body` sets the field at `path`. A path that cannot be read counts as not set."""
    return value_at(body, path) is not MISSING


def value_at(body: Any, path: str) -> Any:
    """The value of the field at `path`; MISSING where the object does not set it."""
    if not path:
        return body
    if path[0] == "." and isinstance(body, Mapping):
        rest = path[1:]
        # A key may have dots of its own (`muster.dev/team`), so the keys are tried, not the dots counted.
        found = (value_at(body[key], rest[len(key) :]) for key in body if _opens(rest, key))
        return next((each for each in found if each is not MISSING), MISSING)
    match = _SELECTOR.match(path)
    if match is None or not isinstance(body, list):
        return MISSING
    wanted = {name: _literal(text) for name, text in _PAIR.findall(match[1])}
    found = (value_at(item, path[match.end() :]) for item in body if _selected(item, wanted))
    return next((each for each in found if each is not MISSING), MISSING)


def _opens(rest: str, key: str) -> bool:
    return rest.startswith(key) and rest[len(key) : len(key) + 1] in ("", ".", "[")


def _selected(item: Any, wanted: Mapping[str, Any]) -> bool:
    if "" in wanted:
        return bool(item == wanted[""])
    return isinstance(item, Mapping) and wanted.items() <= item.items()


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
