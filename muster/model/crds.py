"""Custom resource definitions: what is the same in all of Muster's, and the schema of a declared class."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, is_dataclass
from datetime import timedelta
from typing import Any, Final

from muster.model.keys import Key, ParameterText, QuantityText, Schema, SchemaWriter, keys, to_json
from muster.model.names import GROUP, VERSION
from muster.model.quantities import DURATION_PATTERN

A_SET: Final[Schema] = {"x-kubernetes-list-type": "set"}


class _Writer(SchemaWriter):
    """OpenAPI v3, as the API server takes it."""

    scalars: Mapping[Any, Schema] = {
        str: {"type": "string"},
        ParameterText: {"type": "string", "maxLength": 255},
        QuantityText: {"type": "string", "maxLength": 40},
        bool: {"type": "boolean"},
        int: {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1},
        timedelta: {"type": "string", "pattern": DURATION_PATTERN, "minLength": 2, "maxLength": 20},
    }

    def of_class(self, kind: Any) -> Schema:
        required = [key.name for key in keys(kind) if key.is_required]
        properties = {key.name: self._property(key) for key in keys(kind)}
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def by_name(self, item: Schema) -> Schema:
        return {"type": "object", "additionalProperties": item}

    def _property(self, key: Key) -> Schema:
        typed = self.of_type(key.kind, key.bounds)
        bounded = {name: bound for name, bound in typed.items() if bound is not None}
        described = {"description": key.metadata["description"], **bounded}
        if key.default is MISSING or key.is_optional:
            return described
        return {**described, "default": {} if is_dataclass(key.kind) else to_json(key.default)}


def schema(kind: type) -> Schema:
    """The OpenAPI schema of a declared class."""
    return _Writer().of_class(kind)


def by_key(key: str) -> Schema:
    """A list whose entries have a key of their own."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def cluster_scoped(
    kind: str,
    plural: str,
    description: str,
    *,
    spec: Schema,
    short: str = "",
    conditions: str = "",
    columns: Iterable[tuple[str, str, str]] = (),
) -> Schema:
    """A definition. With `conditions` it has a status, in which they are. `columns`: name, path, type."""
    listed = [
        {"name": name, "jsonPath": path, "type": type_}
        for name, path, type_ in (*columns, ("Age", ".metadata.creationTimestamp", "date"))
    ]
    status = {"subresources": {"status": {}}, "additionalPrinterColumns": listed} if conditions else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                **({"shortNames": [short]} if short else {}),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **status,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": description,
                            "required": ["spec"],
                            "properties": {
                                "spec": spec,
                                **({"status": _status(conditions)} if conditions else {}),
                            },
                        }
                    },
                }
            ],
        },
    }


def _status(conditions: str) -> Schema:
    def text(description: str, most: int) -> Schema:
        return {"type": "string", "maxLength": most, "description": description}

    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text("Name of the condition.", 316),
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "Whether the condition holds.",
            },
            "reason": text("One word for programs.", 1024),
            "message": text("The mistakes, for people.", 32768),
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When the status changed last.",
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "description": "The generation of the spec that the condition is about.",
            },
        },
    }
    listed = {"type": "array", "description": conditions, "items": condition, **by_key("type")}
    return {
        "type": "object",
        "description": "Written by the controller.",
        "properties": {"conditions": listed},
    }
