"""Manifests of a file: its YAML documents that are Kubernetes objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from muster.bounded_yaml import Loader, explain, load_all
from muster.errors import MusterError

# YAML as kubectl reads it, and text that it reads back as the same values.
# Python's reader takes 12:30:00 for a number of seconds and `y` for text; kubectl the other way round.
# Source: https://github.com/kubernetes-sigs/yaml at v1.6.0, goyaml.v2/resolve.go, read 2026-11-27.

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


Json = dict[str, Any]
_JSON: Final = json.JSONDecoder()

# By the end of a kind. The first that fits counts.
_PLURALS: Final = (("endpoints", "endpoints"), ("s", "ses"), ("ay", "ays"), ("y", "ies"), ("", "s"))


def read(text: str, source: str) -> tuple[Json, ...]:
    """The objects of a file, those of a List one by one. MusterError where it has none, or one that is no
    object.
    """
    try:
        documents = [
            plain(each)
            for each in load_all(_split_json(text), by=KubectlLoader, is_strict=True)
            if each is not None
        ]
    except RecursionError:
        raise MusterError(f"{source}: nests too deeply.", fix="name a file with a job.") from None
    except yaml.YAMLError as error:
        _, problem, fix = explain(error, text)
        raise MusterError(f"{source}: {problem}", fix=fix) from error
    found = [each for document in documents for each in _objects(document, source)]
    if not found:
        raise MusterError(
            f"{source}: there is no object in it.", fix="name a file with a job, such as a RayJob."
        )
    return tuple(found)


def _split_json(text: str) -> str:
    """Values of JSON that follow each other as documents of YAML, as kubectl reads them
    (k8s.io/apimachinery, pkg/util/yaml/decoder.go, YAMLOrJSONDecoder, read 2026-11-30).
    """
    documents, left = list[str](), text.strip()
    try:
        while left.startswith("{"):
            _, end = _JSON.raw_decode(left)
            documents.append(left[:end])
            left = left[end:].lstrip()
    except json.JSONDecodeError:
        return text
    return "\n---\n".join([*documents, left]) if len(documents) > 1 else text


def read_text(path: Path) -> str:
    """The text of a file of objects; MusterError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise MusterError(
            f"{path}: cannot be read: {reason}.", fix="name a file with a job, such as a RayJob."
        ) from error


def objects_of(value: object) -> list[Json]:
    """The objects of a list; none where the author wrote something else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def resource_of(body: Json) -> tuple[str, str, str]:
    """Group, version and plural of the kind."""
    group, _, version = body["apiVersion"].rpartition("/")
    kind = body["kind"].lower()
    plurals = (kind.removesuffix(one) + several for one, several in _PLURALS if kind.endswith(one))
    return group, version, next(plurals)


def title(body: Json) -> str:
    """`RayJob train`."""
    metadata = body["metadata"]
    return f"{body['kind']} {metadata.get('name') or metadata.get('generateName') or '(unnamed)'}"


def _objects(document: object, source: str) -> Iterator[Json]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        # As kubectl does: what a JobList has is a Job, whether it says so or not.
        kind = str(document.get("kind")).removesuffix("List")
        of_items = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
        for each in document["items"]:
            yield from _objects({**of_items, **each} if isinstance(each, dict) else each, source)
        return
    strings = isinstance(document, dict) and all(
        isinstance(document.get(key), str) and document[key] for key in ("apiVersion", "kind")
    )
    if not isinstance(document, dict) or not strings:
        raise MusterError(
            f"{source}: a document is no Kubernetes object.", fix="give it apiVersion, kind and metadata."
        )
    metadata = document.get("metadata", {})
    if not isinstance(metadata, dict | None):
        raise MusterError(f"{source}: metadata of a {document['kind']} is no mapping.")
    yield document | {"metadata": metadata or {}}
