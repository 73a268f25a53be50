"""Which pods request GPUs or TPUs, and which work they may belong to.

One rule for pods and for the pod templates of Jobs.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.render.tenancy.policies.who import quoted

WAYS: Final = (
    f"resources of {', '.join(names.DEVICE_PREFIXES)}, resourceClaims, "
    f"annotations {', '.join(names.GPU_PARTS)}"
)


def asked(of: str) -> str:
    """Whether a pod or a template requests any of a vendor's resources, TPUs, a device claimed by name, or a
    part of a GPU as KAI counts it.
    """
    is_device = " || ".join(f"name.startsWith('{prefix}')" for prefix in names.DEVICE_PREFIXES)
    resources = (
        f"({of}.spec.containers + {of}.spec.?initContainers.orValue([])).exists(container, "
        "[container.?resources.?requests, container.?resources.?limits].exists(amounts, "
        f"amounts.hasValue() && amounts.value().exists(name, {is_device})))"
    )
    claim = f"{of}.spec.?resourceClaims.orValue([]).size() > 0"
    part = f"{of}.?metadata.?annotations.orValue({{}}).exists(key, key in {quoted(names.GPU_PARTS)})"
    return f"{resources} || {claim} || {part}"


def kinds(stack: Stack) -> str:
    """The kinds that a queue admits with GPUs. The gate is removed only from pods of Ray clusters."""
    if stack.is_gated:
        return "RayJob, RayCluster or RayService"
    return "RayJob, RayCluster, RayService or batch Job"
