"""Custom resource definitions: what is the same in all of Muster's."""

from collections.abc import Iterable
from typing import Any, Final

from muster.model.names import GROUP, VERSION

Schema = dict[str, Any]
ANY_INTEGER: Final[Schema] = {"minimum": None, "maximum": None}
A_SET: Final[Schema] = {"x-kubernetes-list-type": "set"}


def by_key(key: str) -> Schema:
    """A list whose entries have a key of their own."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def cluster_scoped(
    kind: str,
    plural: str,
    description: str,
    *,
    spec: Schema,
    short: str,
    conditions: str,
    columns: Iterable[tuple[str, str, str]],
) -> Schema:
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
                "shortNames": [short],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "jsonPath": path, "type": kind_}
                        for name, path, kind_ in (*columns, ("Age", ".metadata.creationTimestamp", "date"))
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": description,
                            "required": ["spec"],
                            "properties": {"spec": spec, "status": _status(conditions)},
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
