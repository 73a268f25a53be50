"""Pods and pod templates: which may start, by the stack's scheduler, its claims, capabilities and limits.

The rules are in muster-templates, muster-pods, muster-pod-changes and muster-pod-security.yaml.
"""

from collections.abc import Mapping
from typing import Final

from muster.model import names
from muster.model.quantities import parse_quantity
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import Capability
from muster.model.work import WORK, Work
from muster.render import gang
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.files import policy, shared
from muster.render.tenancy.policies.policy import Policy, kinds_of
from muster.render.tenancy.team import LEAST_REQUEST

WAYS: Final = (
    f"resources of {', '.join(names.DEVICE_PREFIXES)}, resourceClaims, "
    f"annotations {', '.join(names.GPU_PARTS)}"
)
_DEFAULT_SCHEDULER: Final = "default-scheduler"
# Those of the Pod Security Standard.
_DEFAULT_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
_RESTRICTED_CAPABILITIES: Final = ("NET_BIND_SERVICE",)


def asked(of: str) -> str:
    """Whether a pod or a template requests GPUs, in CEL."""
    return shared("asksForGpus", {"of": of, "isDevice": f"({_IS_DEVICE})"})


_IS_DEVICE: Final = " || ".join(f"name.startsWith('{prefix}')" for prefix in names.DEVICE_PREFIXES)


def kinds(stack: Stack) -> str:
    """The kinds that a queue admits with GPUs. The gate is removed only from pods of Ray clusters."""
    if stack.is_gated:
        return "RayJob, RayCluster or RayService"
    return "RayJob, RayCluster, RayService or batch Job"


def templates(stack: Stack) -> Policy:
    away = any(check.controller_name == names.MULTI_KUEUE for check in stack.kueue.admission_checks)
    least = (f"'{name}': {float(parse_quantity(text))}" for name, text in LEAST_REQUEST.items())
    return policy(
        "muster-templates",
        kinds={"makersOfPods": pod_templates.makers_of_pods(stack)},
        values={
            **_standard(stack),
            **_placement(stack),
            **_claims(stack),
            "longestGrace": stack.tenancy.termination_grace,
            "leastRequest": ", ".join(least),
            "leastFix": " and ".join(f"{name} of {text} or more" for name, text in LEAST_REQUEST.items()),
            "managersOfWork": pod_templates.values_at(path for work in WORK for path in work.managers),
            "managers": [
                *(each.manager for each in WORK if each.manager),
                *((names.MULTI_KUEUE,) if away else ()),
            ],
        },
        given={"placeholders": bool(stack.placeholder_pools)},
    )


def _claims(stack: Stack) -> Mapping[str, str]:
    """What of the claims of a pod has to change."""
    if stack.scheduler is Scheduler.KAI:
        reason = "no quota of KAI counts devices that are claimed"
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
            "asksForGpus": asked("object"),
            "mayKeepNodes": "${isPlaceholder}" if gang.holds(stack) else "false",
            "kinds": kinds(stack),
            "unqueued": "a bare Pod" if Work.DEPLOYMENT in stack.work else "a bare Pod or a Deployment",
        },
        given={
            "placeholders": has_placeholders,
            "kai": stack.scheduler is Scheduler.KAI,
            "gated": stack.is_gated,
        },
    )


def changes(stack: Stack) -> Policy:
    held = "${heldFaults}" if stack.placeholder_pools else "[]"
    return policy("muster-pod-changes", values={**_placement(stack), "held": held})


def pod_security(stack: Stack) -> Policy:
    allowed = ", ".join(stack.tenancy.capabilities)
    beyond = f", beyond which a container may add {allowed}" if allowed else ""
    return policy("muster-pod-security", values={**_standard(stack), "beyond": beyond})


def pod_valid(stack: Stack) -> Policy:
    serving = [each.resource for each in WORK if each.serves]
    return policy(
        "muster-pod-valid", kinds={"work": kinds_of(stack.judged_work)}, values={"serving": serving}
    )


def _placement(stack: Stack) -> Mapping[str, str | list[str]]:
    schedulers = ["", _DEFAULT_SCHEDULER]
    if stack.scheduler is Scheduler.KAI:
        schedulers.append(names.KAI_SCHEDULER)
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
