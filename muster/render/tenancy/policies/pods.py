"""Pods and pod templates: which may start, by the stack's scheduler, its claims, capabilities and limits, and
whether they are placed as they ask: by topologies, networks between nodes, node labels and parts of GPUs.

The rules are in muster-templates, muster-pods, muster-pod-changes and muster-pod-security.yaml.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from muster.model import names
from muster.model.node_labels import compared_labels, flavor_labels, known_labels
from muster.model.pools import Pool, missing_for
from muster.model.quantities import parse_quantity
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import Capability
from muster.model.work import GATED, WORK, Work
from muster.render import gang
from muster.render.tenancy.policies.policy import (
    Policy,
    kinds_of,
    makers_of_pods,
    policy,
    quoted,
    shared,
    values_at,
)
from muster.render.tenancy.team import LEAST_REQUEST

KINDS: Final = "RayJob, RayCluster, RayService or batch Job"
"""That every queue admits with GPUs."""
_DEFAULT_SCHEDULER: Final = "default-scheduler"
# Those of the Pod Security Standard.
_DEFAULT_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
_RESTRICTED_CAPABILITIES: Final = ("NET_BIND_SERVICE",)


def requests_gpus(of: str) -> str:
    """Whether a pod or a template requests GPUs, in CEL."""
    return shared("asksForGpus", {"of": of, "isDevice": f"({_IS_DEVICE})"})


_IS_DEVICE: Final = " || ".join(f"name.startsWith('{prefix}')" for prefix in names.DEVICE_PREFIXES)


def templates(stack: Stack) -> Policy:
    away = any(check.controller_name == names.MULTI_KUEUE for check in stack.kueue.admission_checks)
    least = (f"'{name}': {float(parse_quantity(text))}" for name, text in LEAST_REQUEST.items())
    return policy(
        "muster-templates",
        kinds={"makersOfPods": makers_of_pods(stack)},
        values={
            **_standard(stack),
            **_placement(stack),
            **_claims(stack),
            "longestGrace": stack.tenancy.termination_grace,
            "leastRequest": ", ".join(least),
            "leastFix": " and ".join(f"{name} of {text} or more" for name, text in LEAST_REQUEST.items()),
            "managersOfWork": values_at(path for work in WORK for path in work.managers),
            "managers": [
                *(each.manager for each in WORK if each.manager),
                *((names.MULTI_KUEUE,) if away else ()),
            ],
        },
        given={"placeholders": bool(stack.placeholder_pools)},
    )


def _claims(stack: Stack) -> Mapping[str, str]:
    """What of the claims of a pod has to change."""
    if not stack.scheduler.traits.admits_jobs:
        reason = f"no quota of {stack.scheduler.proper_name} counts devices that are claimed"
    elif not stack.kueue.install:
        return {"claimFaults": "[]"}
    elif stack.kueue.device_classes:
        return {"claimFaults": "${unnamedClaims}"}
    else:
        reason = "Kueue admits no claim of a class that muster:kueue.deviceClasses does not map"
    return {"claimFaults": "${noClaims}", "whyNoClaims": reason}


def pods(stack: Stack) -> Policy:
    has_placeholders = bool(stack.placeholder_pools)
    return policy(
        "muster-pods",
        values={
            **_placement(stack),
            "longestGrace": stack.tenancy.termination_grace,
            "asksForGpus": requests_gpus("object"),
            "mayKeepNodes": "${isPlaceholder}" if gang.holds(stack) else "false",
            "kinds": KINDS,
            "isGated": "${isGatedByUs}" if stack.is_gated else "${isGatedByKueue}",
            "unqueued": "a bare Pod" if Work.DEPLOYMENT in stack.work else "a bare Pod or a Deployment",
        },
        given={"placeholders": has_placeholders, "gated": stack.is_gated},
        scheduler=stack.scheduler,
    )


def changes(stack: Stack) -> Policy:
    held = "${heldFaults}" if stack.placeholder_pools else "[]"
    return policy("muster-pod-changes", values={**_placement(stack), "held": held})


def pod_security(stack: Stack) -> Policy:
    allowed = ", ".join(stack.tenancy.capabilities)
    beyond = f", beyond which a container may add {allowed}" if allowed else ""
    return policy("muster-pod-security", values={**_standard(stack), "beyond": beyond})


def pod_valid(stack: Stack) -> Policy:
    devices = dict.fromkeys(pool.device for pool in stack.pools if pool.is_gpu)
    return policy(
        "muster-pod-valid",
        kinds={"work": kinds_of(stack.judged_work)},
        values={
            "serving": [each.resource for each in WORK if each.serves],
            "devices": "".join(f"{device}, " for device in devices),
        },
    )


def _placement(stack: Stack) -> Mapping[str, str | list[str]]:
    own = stack.scheduler.traits.pod_scheduler
    schedulers = ["", _DEFAULT_SCHEDULER, *([own] if own else [])]
    return {"schedulers": schedulers, "theScheduler": schedulers[-1]}


def _standard(stack: Stack) -> Mapping[str, str | tuple[str, ...]]:
    """The Pod Security Standard that holds in the namespace of a request, and what it allows."""
    allowed = tuple(stack.tenancy.capabilities)
    restricted = (*_RESTRICTED_CAPABILITIES, *allowed)
    beyond = f" and {', '.join(allowed)}" if allowed else f" (a stack can allow {', '.join(Capability)})"
    return {
        "standard": f"${{byTheApiServer}} ? ${{podSecurityLabel}} : '{stack.tenancy.pod_security}'",
        "defaultCapabilities": (*_DEFAULT_CAPABILITIES, *allowed),
        "beyondDefault": beyond,
        "restrictedCapabilities": restricted,
        "restrictedNames": ", ".join(restricted),
    }


FABRIC: Final = "muster-fabric"
_KUEUE: Final = "kueue.x-k8s.io/podset-"
_KUEUE_LEVELS: Final = tuple(
    f"{_KUEUE}{each}-topology" for each in ("required", "preferred", "slice-required")
)
_UNCONSTRAINED: Final = f"{_KUEUE}unconstrained-topology"
_KAI: Final = "kai.scheduler/topology"
_KAI_LEVELS: Final = tuple(f"{_KAI}-{each}-placement" for each in ("required", "preferred"))


def _of_kueue(stack: Stack) -> dict[str, list[str]]:
    used = {pool.kueue.topology for pool in stack.pools} | {each.topology for each in stack.kueue.flavors}
    levels = [level for each in stack.kueue.topologies if each.name in used for level in each.levels]
    return {**dict.fromkeys(_KUEUE_LEVELS, levels), **({} if levels else {_UNCONSTRAINED: []})}


def _of_kai(stack: Stack) -> dict[str, list[str]]:
    """A level has its label, and maybe a name in its place."""
    levels = [level for each in stack.kai.topologies for level in each.levels]
    words = [word for level in levels for word in (level.node_label, level.alias) if word]
    return {**dict.fromkeys(_KAI_LEVELS, words), _KAI: [each.name for each in stack.kai.topologies]}


_TOPOLOGIES: Final[Mapping[Scheduler, Callable[[Stack], dict[str, list[str]]]]] = {
    Scheduler.KUEUE: _of_kueue,
    Scheduler.KAI: _of_kai,
}
"""Annotation -> what a pod may write there."""


def topologies(stack: Stack) -> Policy:
    allowed = _TOPOLOGIES[stack.scheduler](stack)
    there_are = ", ".join(dict.fromkeys(word for words in reversed(allowed.values()) for word in words))
    return policy(
        "muster-topologies",
        kinds={"work": kinds_of(stack.judged_work)},
        values={
            "allowed": ", ".join(f"'{key}': dyn({quoted(values)})" for key, values in allowed.items()),
            "keys": list(allowed),
            "has": f"has {there_are}" if there_are else "has none for its pools",
        },
        scheduler=stack.scheduler,
    )


def fabrics(stack: Stack) -> Policy | None:
    """None where no pool has such a network, so that nothing can be missing."""
    pools = [pool for pool in stack.pools if pool.is_gpu and pool.gpus_per_node]
    if not any(missing_for(pool, {}) for pool in pools):
        return None
    work = kinds_of(stack.judged_work, operations=("CREATE",))
    return policy(FABRIC, kinds={"work": work}, values={"pools": ", ".join(map(_pool, pools))})


def _pool(pool: Pool) -> str:
    unless = names.EFA_RESOURCE if pool.efa else ""
    return (
        f"{{'name': dyn('{pool.name}'), 'gpus': dyn({pool.gpus_per_node}), "
        f"'missing': dyn({json.dumps(missing_for(pool, {}))}), 'unless': dyn('{unless}')}}"
    )


# What every node has, with a value that no pool decides; the last one on GKE, where pools have
# Workload Identity.
_OF_EVERY_NODE: Final = (
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "topology.kubernetes.io/region",
    "iam.gke.io/gke-metadata-server-enabled",
)


def node_labels(stack: Stack) -> Policy:
    known = {key for labels in known_labels(stack).values() for key in labels}
    of_flavors = {key for labels in flavor_labels(stack).values() for key in labels}
    # Kueue does not compare the others, although their values are known.
    listed = of_flavors if stack.scheduler.traits.has_flavors else known
    others = known - listed
    compared = set(compared_labels(stack)) - others
    exempt = (f"key.startsWith('{each}')" for each in sorted(compared) if each.endswith("/"))
    return policy(
        "muster-node-labels",
        kinds={"work": kinds_of(stack.judged_work, operations=("CREATE",))},
        values={
            "ofEveryNode": list(_OF_EVERY_NODE),
            "compared": sorted({names.ZONE_LABEL, *listed, *compared}),
            "isExempt": " ||\n".join(exempt) or "false",
        },
        scheduler=stack.scheduler,
    )


def kai_sharing(stack: Stack) -> Policy:
    families = {kind.family for kind in GATED}
    gangs = kinds_of(each for each in stack.judged_work if each.is_ray or each.family in families)
    return policy("muster-kai-sharing", kinds={"gangs": gangs}, values={"parts": ", ".join(names.GPU_PARTS)})
