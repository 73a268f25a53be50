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
    flags = {
        "kai": "KAI schedules, not Kueue.",
        "gated": "GPU pods wait behind a gate.",
        "guarded": "Ray clusters need a token.",
    }
    switches = {name: {"type": "boolean", "description": text} for name, text in flags.items()}
    prefix = {"type": "string", "maxLength": 317}
    return {
        "type": "object",
        "description": "Written by the program, from the departments and the pools.",
        "properties": {
            **switches,
            "uncounted": _atomic(prefix, "Prefixes of resources that no queue counts."),
            "namespaces": _atomic(_space(), "The namespaces of teams."),
        },
    }


def _space() -> Schema:
    name = {"type": "string", "minLength": 1, "maxLength": 253}
    amounts = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 40}}
    limits = {"type": "object", "additionalProperties": amounts}
    fields = {
        "name": {**name, "description": "The name that work uses."},
        "most": {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0},
            "description": "Most GPUs that its work can hold at a time, by pool; `*`: over all pools.",
        },
        "limits": _atomic(limits, "The same for other resources: one entry a resource group, by pool."),
        "pool": {**name, "description": "Its one pool; absent where it may use any."},
        "gpus": {"type": "integer", "minimum": 0, "description": "GPUs of one node of its pool."},
    }
    queue = {"type": "object", "required": ["name"], "properties": fields}
    return {
        "type": "object",
        "required": ["namespace", "team", "queues"],
        "properties": {
            "namespace": {**name, "description": "Name of the namespace."},
            "team": {**name, "description": "The team that owns it."},
            "queues": _atomic(queue, "The queues that its work may name."),
            "priorities": _atomic(name, "The priorities that its work may name, the highest first."),
            "defaultPriority": {**name, "description": "The priority of work that names none."},
        },
    }


def _atomic(items: Schema, description: str) -> Schema:
    return {
        "type": "array",
        "description": description,
        "items": items,
        "x-kubernetes-list-type": "atomic",
    }
