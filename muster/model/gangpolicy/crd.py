"""The custom resource definition of GangPolicy.

Responsible for what the API server refuses and which defaults it sets, derived from the same dataclasses
that the controller reads. The controller checks rules between fields and reports them in the condition
`Accepted`.
"""

from datetime import timedelta
from typing import Any, Final

from muster.model.gangpolicy.durations import DURATION_PATTERN, format_duration
from muster.model.gangpolicy.policy import (
    FlavorPolicy,
    GangPolicy,
    KaiPolicy,
    OnStaggered,
    OnStockOut,
    OverQuota,
)
from muster.model.names import GANG_POLICY_KIND, GANG_POLICY_PLURAL, GANG_POLICY_SHORT, GROUP, VERSION

Schema = dict[str, Any]

MOST_FLAVORS: Final = 256
"""As many pools as Kueue lets a queue name: 16 resource groups of 16 flavors and room to spare."""


def crd() -> Schema:
    """The definition, ready to apply; it carries no status and waits for `Established` like any other."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{GANG_POLICY_PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": GANG_POLICY_KIND,
                "listKind": f"{GANG_POLICY_KIND}List",
                "plural": GANG_POLICY_PLURAL,
                "singular": GANG_POLICY_KIND.lower(),
                "shortNames": [GANG_POLICY_SHORT],
            },
            "versions": [_version()],
        },
    }


def _version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("Accepted", '.status.conditions[?(@.type=="Accepted")].status', "string"),
            _column("Provision", ".spec.provisionTimeout", "string"),
            _column("Staggered", ".spec.onStaggered", "string"),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "How gangs get their capacity, in which order, for how long.",
                "required": ["spec"],
                "properties": {"spec": _spec(), "status": _status()},
            }
        },
    }


def _column(name: str, path: str, kind: str) -> Schema:
    return {"name": name, "jsonPath": path, "type": kind}


def _spec() -> Schema:
    default = GangPolicy()
    return {
        "type": "object",
        "description": "Written by the program, from `muster:gangAdmission` and the pools.",
        "default": {},
        "properties": {
            "managedResources": {
                "type": "array",
                "description": "PodSets that ask for one of these get provisioning requests.",
                "items": {"type": "string", "minLength": 1, "maxLength": 317},
                "minItems": 1,
                "maxItems": 100,
                "x-kubernetes-list-type": "set",
                "default": list(default.managed_resources),
            },
            "queueTimeout": _duration(default.queue_timeout, "Longest wait from request to Accepted."),
            "provisionTimeout": _duration(
                default.provision_timeout,
                "Longest wait from Accepted until every node is ready and verified.",
            ),
            "bookingWindow": _duration(
                default.booking_window,
                "How long the autoscaler keeps provisioned capacity for the pods of the gang.",
            ),
            "bookingMargin": _duration(
                default.booking_margin, "How long before the end of the window the gang acts."
            ),
            "onStaggered": {
                "type": "string",
                "description": "What happens to provisioned requests when others of the gang come too late.",
                "enum": [choice.value for choice in OnStaggered],
                "default": default.on_staggered.value,
            },
            "onStockOut": {
                "type": "string",
                "description": "What happens to a gang whose pool is out of stock.",
                "enum": [choice.value for choice in OnStockOut],
                "default": default.on_stock_out.value,
            },
            "placeholderImage": {
                "type": "string",
                "maxLength": 500,
                "default": default.placeholder_image,
                "description": "Image of the placeholder pods; empty: `onStaggered: hold` acts as `release`.",
            },
            "retry": _retry(),
            "nodeLossGrace": _duration(
                default.node_loss_grace,
                "How long a running gang may lack nodes before it queues again as a whole; 0s: forever.",
            ),
            "unreachableGrace": _duration(
                default.unreachable_grace,
                "The same for nodes whose kubelet does not report (Ready is Unknown). It does not begin "
                "while most nodes are silent. 0s: forever.",
            ),
            "leaseNotice": _duration(
                default.lease_notice,
                "How long before its lease ends a running gang is notified; 0s: not at all.",
            ),
            "flavors": {
                "type": "array",
                "maxItems": MOST_FLAVORS,
                "description": "The pools, one entry each.",
                "items": _flavor(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "default": [],
            },
            "kai": _kai(),
        },
    }


def _kai() -> Schema:
    return {
        "type": "object",
        "description": "Present where KAI schedules: gated Ray clusters are released, and no Workloads.",
        "properties": {
            "overQuota": {
                "type": "string",
                "description": "Whether preemptible gangs pass above their queue's quota, up to its limit.",
                "enum": [choice.value for choice in OverQuota],
                "default": KaiPolicy().over_quota.value,
            },
            "preemptAfter": _duration(
                KaiPolicy().preempt_after,
                "How long a gang waits for new nodes before it takes room that KAI may give it.",
            ),
        },
    }


def _retry() -> Schema:
    default = GangPolicy().retry
    return {
        "type": "object",
        "description": "The backoff without quota: base, doubled up to max, until deadline.",
        "default": {},
        "properties": {
            "base": _duration(default.base, "The first wait."),
            "max": _duration(default.max, "The longest wait."),
            "deadline": _duration(
                default.deadline,
                "The gang is refused this long after its first attempt began, and not before its third "
                "attempt failed. With Kueue, time spent waiting for quota does not count.",
            ),
            "jitterPercent": _integer(
                default.jitter_percent,
                "Random variation of each wait, so that gangs that failed together retry at different times.",
                most=100,
            ),
            "perMinute": _integer(
                default.per_minute,
                "Maximum number of retries per minute over all gangs, with bursts of a tenth of it; "
                "namespaces take "
                "turns. First attempts are not counted. 0: no bound.",
            ),
        },
    }


def _flavor() -> Schema:
    default = FlavorPolicy(name="")
    text = {"type": "string", "maxLength": 253}
    return {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {**text, "minLength": 1, "description": "Name of the ResourceFlavor."},
            "provisioningClassName": {**text, "default": "", "description": "Empty: nothing is requested."},
            "parameters": {
                "type": "object",
                "maxProperties": 100,
                "additionalProperties": {"type": "string", "maxLength": 255},
                "default": {},
                "description": "Parameters of each ProvisioningRequest for this flavor.",
            },
            "nodeSelectorFromDetails": {
                "type": "array",
                "maxItems": 8,
                "description": "Pins pods to their own lease: node label `key` = the request's `detail`.",
                "items": {
                    "type": "object",
                    "required": ["key", "detail"],
                    "properties": {
                        "key": {**text, "minLength": 1, "description": "Label of the nodes."},
                        "detail": {
                            **text,
                            "minLength": 1,
                            "description": "Name of the request's provisioningClassDetail.",
                        },
                    },
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"],
                "default": [],
            },
            "onePodSetPerRequest": {
                "type": "boolean",
                "default": default.one_pod_set_per_request,
                "description": "Each PodSet gets a request of its own, as GKE demands.",
            },
            "verifyNodes": {
                "type": "boolean",
                "default": default.verify_nodes,
                "description": "Whether the pods have to fit on Ready nodes before the gang starts.",
            },
            "maxNodes": _integer(default.max_nodes, "Maximum number of nodes of the pool; 0: not known."),
            "gpusPerNode": _integer(default.gpus_per_node, "GPUs of one node; 0: not known."),
            "perNode": {
                "type": "object",
                "maxProperties": 20,
                "additionalProperties": {"type": "string", "maxLength": 40},
                "default": {},
                "description": "The most that pods can request of one node, by resource, GPUs excepted.",
            },
            "gpuTaint": {
                "type": "boolean",
                "default": default.gpu_taint,
                "description": "Kueue assigns it only to pods that tolerate the taint of GPUs or TPUs.",
            },
            "gpuMemory": _integer(default.gpu_memory, "MiB of one GPU; 0: not known."),
            "sliceNodes": _integer(
                default.slice_nodes,
                "Nodes of one TPU slice, which the cloud makes together; a gang takes all of them.",
            ),
            "scarcity": {
                "type": "integer",
                "format": "int32",
                "default": default.scarcity,
                "description": "Pools with a higher value are requested first.",
            },
        },
    }


def _duration(default: timedelta, description: str) -> Schema:
    return {
        "type": "string",
        "description": description,
        "pattern": DURATION_PATTERN,
        "minLength": 2,
        "maxLength": 20,
        "default": format_duration(default),
    }


def _integer(default: int, description: str, *, most: int = 2**31 - 1) -> Schema:
    return {
        "type": "integer",
        "format": "int32",
        "minimum": 0,
        "maximum": most,
        "default": default,
        "description": description,
    }


def _status() -> Schema:
    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": {"type": "string", "maxLength": 316, "description": "Name of the condition."},
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "Whether the condition holds.",
            },
            "reason": {"type": "string", "maxLength": 1024, "description": "One word for programs."},
            "message": {"type": "string", "maxLength": 32768, "description": "The mistakes, for people."},
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
    return {
        "type": "object",
        "description": "Written by the controller.",
        "properties": {
            "conditions": {
                "type": "array",
                "description": "`Accepted`: whether the controller applies the spec as it is written.",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            }
        },
    }
