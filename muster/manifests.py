"""Kubernetes objects in the texts of a Bundle: what the provider applies, and what the policy pack judges.

A text is YAML (one or more documents) or JSON: one object, a list of objects, a `kind: List`, or a mapping
from a label of the author's choice to an object (a mapping without `kind`; the label makes the engine's
diff readable).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from muster.bounded_yaml import load_all


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in one text. Raises ValueError with the reason."""
    try:
        return list(_objects(_load(text)))
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def rewrite(text: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
    """The text with each object as `change` returns it, or without it; order and shape stay."""
    loaded = [_rewritten(value, change) for value in _load(text)]
    kept = [value for value in loaded if value is not None]
    return json.dumps(kept[0] if len(kept) == 1 else kept, sort_keys=True, separators=(",", ":"))


def _rewritten(value: Any, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    if isinstance(value, list):
        return [new for each in value if (new := _rewritten(each, change)) is not None]
    if _is_list(value):
        return value | {"items": _rewritten(value["items"], change)}
    if _is_labelled(value):
        return {label: new for label, each in value.items() if (new := change(each)) is not None}
    return change(value)


def _load(text: str) -> list[Any]:
    """JSON is tried first: it reads a hundred times faster than YAML, and a thousand teams are megabytes."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except json.JSONDecodeError:
            pass  # YAML's flow style opens with the same characters
    try:
        return [document for document in load_all(text) if document is not None]
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
            yield from _objects(value["items"])
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
    return str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list)


def _is_labelled(value: Mapping[str, Any]) -> bool:
    return "kind" not in value and bool(value) and all(_has_kind(each) for each in value.values())


def _has_kind(value: object) -> bool:
    return isinstance(value, dict) and "kind" in value
