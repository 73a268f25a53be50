"""Parses the manifests of a Bundle: texts -> Kubernetes objects with identities, or a list of problems.

A text is YAML (one or more documents) or JSON: one object, a list of objects, a `kind: List`, or a mapping
from a label of the author's choice to an object (a mapping without `kind`; the label makes the engine's
diff readable). Nothing here asks a cluster; whether a kind exists and is namespaced is `api.py`'s business.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object's address. `namespace` is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same object in two versions of its API has one identity."""
        return self.group, self.kind, self.namespace, self.name

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"

    def encode(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {where}"

    @classmethod
    def decode(cls, text: str) -> "Ref":
        api_version, kind, where = text.split(" ", 2)
        namespace, _, name = where.rpartition("/")
        return cls(api_version, kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a Bundle and the key of the text that it came from."""

    key: str
    ref: Ref
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the text under one key, and how to put it right."""

    key: str
    message: str


class ManifestError(Exception):
    """A Bundle that cannot be read; `problems` has the reasons, key by key."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"manifests[{problem.key!r}]: {problem.message}" for problem in problems))
        self.problems = problems


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in one text. Raises ValueError with the reason."""
    return list(_objects(_load(text)))


def read(manifests: Mapping[str, str]) -> list[Item]:
    """All objects of a Bundle. Raises ManifestError with every problem, not only the first."""
    items: list[Item] = []
    problems: list[Problem] = []
    seen: dict[tuple[str, str, str, str], str] = {}
    for key, text in manifests.items():
        try:
            bodies = documents(text)
        except ValueError as error:
            problems.append(Problem(key, str(error)))
            continue
        for position, body in enumerate(bodies):
            fault = _fault(body)
            if fault:
                problems.append(Problem(key, f"object {position}: {fault}"))
                continue
            ref = ref_of(body)
            if ref.identity in seen:
                problems.append(
                    Problem(key, f"{ref} is under {seen[ref.identity]!r} too. Fix: keep it in one place")
                )
                continue
            seen[ref.identity] = key
            items.append(Item(key, ref, body))
    if problems:
        raise ManifestError(problems)
    return items


def ref_of(body: Mapping[str, Any]) -> Ref:
    metadata = body["metadata"]
    return Ref(body["apiVersion"], body["kind"], metadata.get("namespace") or "", metadata["name"])


def rewrite(text: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
    """The text with each object as `change` returns it, or without it; order and shape stay."""
    loaded = [_rewritten(value, change) for value in _load(text)]
    kept = [value for value in loaded if value is not None]
    return json.dumps(kept[0] if len(kept) == 1 else kept, sort_keys=True, separators=(",", ":"))


def _rewritten(value: Any, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    if isinstance(value, list):
        return [new for each in value if (new := _rewritten(each, change)) is not None]
    if _is_list(value):
        return value | {"items": _rewritten(list(value["items"]), change)}
    if _is_labelled(value):
        return {label: new for label, each in value.items() if (new := change(each)) is not None}
    return change(value)


def same(one: str, other: str) -> bool:
    """Whether two texts hold the same objects, however they are written."""
    if one == other:
        return True
    try:
        return _by_identity(one) == _by_identity(other)
    except (ValueError, KeyError):
        return False


def _by_identity(text: str) -> dict[Ref, dict[str, Any]]:
    return {ref_of(body): body for body in documents(text)}


def _load(text: str) -> list[Any]:
    """JSON is tried first: it reads a hundred times faster than YAML, and a thousand teams are megabytes."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except json.JSONDecodeError:
            pass  # YAML's flow style opens with the same characters
    try:
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"neither JSON nor YAML: {_first_line(error)}") from error


def _first_line(error: yaml.YAMLError) -> str:
    """The place and the complaint, without the snippet that PyYAML adds: it could be part of a secret."""
    mark = getattr(error, "problem_mark", None)
    complaint = getattr(error, "problem", None) or "unreadable"
    return f"{complaint} at line {mark.line + 1}, column {mark.column + 1}" if mark else str(complaint)


def _objects(loaded: list[Any]) -> Iterator[dict[str, Any]]:
    for value in loaded:
        if isinstance(value, list):
            yield from _objects(value)
        elif not isinstance(value, dict):
            raise ValueError(f"expected Kubernetes objects, found {type(value).__name__}")
        elif _is_list(value):
            yield from _objects(list(value["items"]))
        elif _is_labelled(value):
            yield from _objects(list(value.values()))
        else:
            yield lean(value)


def lean(body: dict[str, Any]) -> dict[str, Any]:
    """The object without an empty `spec`: applied over one that had fields of ours, the API server makes
    `spec: null` of it and refuses that, so the last field could never be removed.
    """
    return body if body.get("spec", True) != {} else {key: body[key] for key in body if key != "spec"}


def _is_list(value: Mapping[str, Any]) -> bool:
    return str(value.get("kind", "")).endswith("List") and "items" in value


def _is_labelled(value: Mapping[str, Any]) -> bool:
    return "kind" not in value and bool(value) and all(_has_kind(each) for each in value.values())


def _has_kind(value: object) -> bool:
    return isinstance(value, dict) and "kind" in value


def _fault(body: Mapping[str, Any]) -> str | None:
    metadata = body.get("metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            return f"{field} is missing; every object needs apiVersion, kind and metadata.name"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"{body['kind']} has no metadata.name (generateName cannot be applied twice); give it a name"
    if "status" in body:
        return f"{body['kind']} {metadata['name']} carries a status; leave it to the cluster"
    return None
