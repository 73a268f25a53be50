"""The package's schema: what `pulumi package get-schema` prints."""

import json

from muster.provider import VERSION

BUNDLE = "muster:k8s:Bundle"
FIND = "muster:k8s:find"

_KUBECONFIG = {
    "kubeconfig": {
        "type": "string",
        "secret": True,
        "description": "A kubeconfig or the path to one; $KUBECONFIG and then ~/.kube/config without it.",
    },
    "context": {
        "type": "string",
        "description": "The context to use; the kubeconfig's current one without it.",
    },
}
_INPUTS = {
    "manifests": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "A key of your choice (a team's name) -> its Kubernetes objects as YAML or JSON.",
    },
    "dryRuns": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "A key of `manifests` -> objects that the API server has to accept in a dry run "
        "before the bundle is done. They are never created, and a change of them alone does not update "
        "the bundle.",
    },
}

SCHEMA = json.dumps(
    {
        "name": "muster",
        "version": VERSION,
        "description": "Many Kubernetes objects as one Pulumi resource.",
        "config": {"variables": _KUBECONFIG},
        "provider": {"inputProperties": _KUBECONFIG},
        "functions": {
            FIND: {
                "description": "Live objects of a kind with these labels, in all namespaces.",
                "inputs": {
                    "properties": {name: {"type": "string"} for name in ("apiVersion", "kind", "selector")},
                    "required": ["apiVersion", "kind", "selector"],
                },
                "outputs": {
                    "properties": {
                        "objects": {"type": "array", "items": {"type": "string"}},
                        "asked": {
                            "type": "boolean",
                            "description": "Whether the cluster was reached; without it nothing is found.",
                        },
                    },
                    "required": ["objects", "asked"],
                },
            }
        },
        "resources": {
            BUNDLE: {
                "description": "Kubernetes objects that are applied in order and removed in reverse.",
                "inputProperties": _INPUTS,
                "requiredInputs": ["manifests"],
                "properties": {
                    "cluster": {"type": "string", "description": "UID of the cluster that they are in."},
                    "objects": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "What is in the cluster because of this bundle.",
                    },
                },
                "required": ["cluster", "objects"],
            }
        },
    }
)
