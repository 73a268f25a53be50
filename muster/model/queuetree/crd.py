"""The custom resource definition of QueueTree.

Responsible for what the API server refuses. Lists are atomic: there is one writer, and field ownership for
each of a thousand teams would be larger than the teams.
"""

from typing import Any

from muster.model.names import GROUP, QUEUE_TREE_KIND, QUEUE_TREE_PLURAL, VERSION

Schema = dict[str, Any]


def crd() -> Schema:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "What each team's namespace may name as its queue and priority.",
                "required": ["spec"],
                "properties": {"spec": _spec()},
            }
        },
    }
    kinds = {
        "kind": QUEUE_TREE_KIND,
        "listKind": f"{QUEUE_TREE_KIND}List",
        "plural": QUEUE_TREE_PLURAL,
        "singular": QUEUE_TREE_KIND.lower(),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{QUEUE_TREE_PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": kinds, "versions": [version]},
    }


def _spec() -> Schema:
    flags = {"kai": "KAI schedules.", "gated": "GPU pods wait behind a gate.", "guarded": "Ray has tokens."}
    switches = {name: {"type": "boolean", "description": text} for name, text in flags.items()}
    prefix = {"type": "string", "maxLength": 317, "description": "Of resources that no queue counts."}
    return {
        "type": "object",
        "properties": {**switches, "uncounted": _atomic(prefix), "namespaces": _atomic(_space())},
    }


def _space() -> Schema:
    name = {"type": "string", "minLength": 1, "maxLength": 253}
    most = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    gpus = {"type": "integer", "minimum": 0, "description": "Of one node of its pool."}
    amounts = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 40}}
    limits = _atomic({"type": "object", "additionalProperties": amounts})
    fields = {"name": name, "most": most, "limits": limits, "pool": name, "gpus": gpus}
    queue = {"type": "object", "required": ["name"], "properties": fields}
    return {
        "type": "object",
        "required": ["namespace", "team", "queues"],
        "properties": {
            "namespace": name,
            "team": name,
            "queues": _atomic(queue),
            "priorities": _atomic(name),
            "defaultPriority": name,
        },
    }


def _atomic(items: Schema) -> Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}
