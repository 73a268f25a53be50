"""A team's Namespace, with the labels and annotations that admission reads.

Responsible for those of policies, webhooks and Pod Security. Users of the namespace may not change them
(policies/protected.py).
"""

from collections.abc import Mapping
from typing import Final

from muster.model import names
from muster.model.kai.priorities import effective
from muster.model.queues import Team
from muster.model.stack import Scheduler, Stack
from muster.render.manifest import Manifest, manifest

_POD_SECURITY: Final = "pod-security.kubernetes.io"


def namespace(stack: Stack, team: Team, labels: Mapping[str, str], *, queues: tuple[str, ...]) -> Manifest:
    # No standard allows the capabilities: a policy holds the rest of it (policies/pod_security.py).
    level = "privileged" if stack.tenancy.capabilities else stack.tenancy.pod_security.value
    body = manifest(
        "v1",
        "Namespace",
        team.namespace,
        labels={**labels, f"{_POD_SECURITY}/enforce": level, f"{_POD_SECURITY}/enforce-version": "latest"},
    )
    body["metadata"]["annotations"] = {
        names.QUEUES_ANNOTATION: ",".join(queues),
        names.PRIORITIES_ANNOTATION: ",".join(priorities_of(stack, team)),
    }
    return body


def priorities_of(stack: Stack, team: Team) -> tuple[str, ...]:
    """The priorities that the team may use, the highest first; all of the stack's when it names none."""
    known = stack.priorities if stack.scheduler is Scheduler.KUEUE else effective(stack.priorities)
    return tuple(each.name for each in known if not team.priorities or each.name in team.priorities)
