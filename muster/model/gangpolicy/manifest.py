"""The policy as an object of the cluster."""

from typing import Any

from muster.model.gangpolicy.durations import format_duration
from muster.model.gangpolicy.policy import FlavorPolicy, GangPolicy, KaiPolicy
from muster.model.names import API_VERSION, GANG_POLICY, GANG_POLICY_KIND

Manifest = dict[str, Any]


def to_manifest(policy: GangPolicy, *, name: str = GANG_POLICY) -> Manifest:
    """The GangPolicy object, every field written out: a diff shows what changes and no default hides."""
    return {
        "apiVersion": API_VERSION,
        "kind": GANG_POLICY_KIND,
        "metadata": {"name": name},
        "spec": {
            "managedResources": list(policy.managed_resources),
            "queueTimeout": format_duration(policy.queue_timeout),
            "provisionTimeout": format_duration(policy.provision_timeout),
            "bookingWindow": format_duration(policy.booking_window),
            "bookingMargin": format_duration(policy.booking_margin),
            "onStaggered": policy.on_staggered.value,
            "onStockOut": policy.on_stock_out.value,
            **({"placeholderImage": policy.placeholder_image} if policy.placeholder_image else {}),
            "retry": {
                "base": format_duration(policy.retry.base),
                "max": format_duration(policy.retry.max),
                "deadline": format_duration(policy.retry.deadline),
                "jitterPercent": policy.retry.jitter_percent,
                "perMinute": policy.retry.per_minute,
            },
            "nodeLossGrace": format_duration(policy.node_loss_grace),
            "unreachableGrace": format_duration(policy.unreachable_grace),
            "leaseNotice": format_duration(policy.lease_notice),
            "flavors": [_flavor_to_spec(flavor) for flavor in policy.flavors],
            **({"kai": _kai_to_spec(policy.kai)} if policy.kai else {}),
        },
    }


def _kai_to_spec(kai: KaiPolicy) -> Manifest:
    return {"overQuota": kai.over_quota.value, "preemptAfter": format_duration(kai.preempt_after)}


def _flavor_to_spec(flavor: FlavorPolicy) -> Manifest:
    return {
        "name": flavor.name,
        "provisioningClassName": flavor.provisioning_class_name,
        "parameters": dict(flavor.parameters),
        "nodeSelectorFromDetails": [
            {"key": selector.key, "detail": selector.detail} for selector in flavor.node_selector_from_details
        ],
        "onePodSetPerRequest": flavor.one_pod_set_per_request,
        "verifyNodes": flavor.verify_nodes,
        "maxNodes": flavor.max_nodes,
        "gpusPerNode": flavor.gpus_per_node,
        "perNode": dict(sorted(flavor.per_node.items())),
        "gpuTaint": flavor.gpu_taint,
        "gpuMemory": flavor.gpu_memory,
        **({"sliceNodes": flavor.slice_nodes} if flavor.slice_nodes > 1 else {}),
        "scarcity": flavor.scarcity,
    }
