"""YAML as kubectl reads it, and text that it reads back as the same values.

Python's reader takes 12:30:00 for a number of seconds and `y` for text; kubectl the other way round.
Source: https://github.com/kubernetes-sigs/yaml at v1.6.0, goyaml.v2/resolve.go, read 2026-11-27.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any, ClassVar, Final

import yaml

from muster.bounded_yaml import Loader

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "yes", "true", "on")
_FALSE: Final = ("n", "no", "false", "off")
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)\Z")
_FLOAT: Final = re.compile(
    r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"
)


class KubectlLoader(Loader):
    """Plain values as kubectl has them."""

    yaml_constructors: ClassVar[dict[Any, Any]] = {
        **Loader.yaml_constructors,
        f"{_TAG}bool": lambda _, node: node.value.lower() in _TRUE,
    }

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _tag(value) if implicit[0] else f"{_TAG}str"
        return f"{_TAG}{'map' if kind is yaml.MappingNode else 'seq'}"


class _Dumper(yaml.SafeDumper):
    """Quotes what either reader would take for no text."""


_Dumper.add_implicit_resolver(f"{_TAG}bool", re.compile(r"[yYnN]\Z"), [*"yYnN"])
_Dumper.add_implicit_resolver(f"{_TAG}int", _INT, [*"-+0123456789"])
_Dumper.add_implicit_resolver(f"{_TAG}float", _FLOAT, [*"-+.0123456789"])


def dump_all(bodies: Iterable[Any]) -> str:
    """The text of documents, in the order of their keys."""
    return str(yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def plain(value: object) -> object:
    """A value as JSON has it: kubectl makes JSON of each document."""
    if isinstance(value, dict):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.isoformat() if isinstance(value, date) else value


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _tag(value: str) -> str:
    if value in _NULLS:
        kind = "null"
    elif value in (value.lower(), value.upper(), value.title()) and value.lower() in (*_TRUE, *_FALSE):
        kind = "bool"
    elif value == "<<":
        kind = "merge"
    else:
        number = value.replace("_", "") if value[0] in "+-0123456789" else value
        kind = "int" if _INT.match(number) else "float" if _FLOAT.match(number) else "str"
    return f"{_TAG}{kind}"
