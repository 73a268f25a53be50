"""Manifests of a file: its YAML documents that are Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from muster.bounded_yaml import explain, load_all
from muster.check.kubectl_yaml import KubectlLoader, plain
from muster.errors import MusterError

Json = dict[str, Any]

# By kind, where the name is not the lower case with an s.
_PLURALS: Final = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "Endpoints": "endpoints"}


def read(text: str, source: str) -> tuple[Json, ...]:
    """The objects of a file, those of a List one by one. MusterError where it has none, or one that is no
    object.
    """
    try:
        documents = [plain(each) for each in load_all(text, by=KubectlLoader) if each is not None]
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


def read_text(path: Path) -> str:
    """The text of a file of objects; MusterError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise MusterError(
            f"{path}: cannot be read: {reason}.", fix="name a file with a job, such as a RayJob."
        ) from error


def resource_of(body: Json) -> tuple[str, str, str]:
    """Group, version and plural of the kind."""
    group, _, version = body["apiVersion"].rpartition("/")
    kind = body["kind"]
    return group, version, _PLURALS.get(kind) or f"{kind.lower()}s"


def title(body: Json) -> str:
    """`RayJob train`."""
    metadata = body["metadata"]
    return f"{body['kind']} {metadata.get('name') or metadata.get('generateName') or '(unnamed)'}"


def _objects(document: object, source: str) -> Iterator[Json]:
    if isinstance(document, dict) and document.get("kind") == "List":
        for each in document.get("items") or ():
            yield from _objects(each, source)
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
