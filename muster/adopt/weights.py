"""Fair sharing weights of ClusterQueues, LocalQueues and Cohorts."""

from collections.abc import Iterable

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings
from muster.live.fields import mapping
from muster.model.quantities import parse_quantity
from muster.render.manifest import Manifest

_SHARING = ("Cohort", "ClusterQueue")


def to_weight(body: Manifest) -> int | None:
    """The weight, None where there is none or a stack cannot have it."""
    value = mapping(body, "spec", "fairSharing").get("weight")
    if value is None:
        return None
    try:
        weight = parse_quantity(str(value))
    except ValueError:
        return None
    return int(weight) if weight.denominator == 1 and weight >= 1 else None


def has_weights(live: LiveCluster, findings: Findings) -> bool:
    """Whether the stack has weights. One weight in a stack gives every queue one, so it has all or none."""
    set_ = [each for kind in _SHARING for each in live.of(kind) if _is_set(each)]
    wrong = [each for each in set_ if to_weight(each) is None]
    for each in wrong:
        value = mapping(each, "spec", "fairSharing").get("weight")
        reason = f"{value!r} is no whole number from 1, which a stack's weights are."
        effect = "no weight is in the stack; all stay on their objects, and Muster leaves them alone"
        findings.lost(title(each), "spec.fairSharing.weight", reason, effect)
    return not wrong and _differ(set_)


def _is_set(body: Manifest) -> bool:
    return mapping(body, "spec", "fairSharing").get("weight") is not None


def _differ(set_: Iterable[Manifest]) -> bool:
    """A weight of 1 is what every queue has without one."""
    return any(to_weight(each) != 1 for each in set_)
