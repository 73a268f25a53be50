"""Pods that keep nodes for a gang that is not whole yet (`onStaggered: hold`).

Decides when a finished request is consumed by pods that do nothing, and what those are: as many as the gang
will have there, of the same size, on the same nodes. They begin when the booking is about to end and go in
the step that lets the gang start. How long that may last is the deadlines' question: nodes are paid for
meanwhile, which is what whoever writes `hold` chooses.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any, Final

import msgspec

from muster.controller.gangs.actions import Hold
from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.capacity_claims import missing_detail, promises_of
from muster.controller.gangs.deadlines import booking_over
from muster.controller.gangs.identity import placeholder_name
from muster.controller.gangs.owner import Owner
from muster.controller.gangs.split import Ask
from muster.controller.gangs.verify import Wanted
from muster.model.gangpolicy import GangPolicy

_NOBODY: Final = 65535


def due(attempt: Attempt, policy: GangPolicy) -> tuple[Hold, ...]:
    """What is to be kept from now on."""
    if not policy.holds:
        return ()
    moments = (
        (ask, booking_over(attempt.current[ask.shape], policy, now=attempt.now)) for ask in _open(attempt)
    )
    return tuple(_hold(attempt, ask, policy) for ask, at in moments if at and at <= attempt.now)


def next_due(attempt: Attempt, policy: GangPolicy) -> datetime | None:
    """When the first of the finished requests has to be kept."""
    if not policy.holds:
        return None
    moments = (booking_over(attempt.current[ask.shape], policy, now=attempt.now) for ask in _open(attempt))
    return min((at for at in moments if at and at > attempt.now), default=None)


def _open(attempt: Attempt) -> Iterator[Ask]:
    """Pieces that are provisioned and have fewer placeholders than pods."""
    held = {item.metadata.name for item in attempt.placeholders}
    for ask in attempt.gang.asks:
        request = attempt.current.get(ask.shape)
        if request is None or not request.status.holds("Provisioned") or missing_detail(ask, request):
            continue
        if not {name for name, _ in named(request.metadata.name, ask)} <= held:
            yield ask


def _hold(attempt: Attempt, ask: Ask, policy: GangPolicy) -> Hold:
    request = attempt.current[ask.shape]
    return Hold(
        request=request.metadata.name,
        ask=ask,
        promised=promises_of(ask, request),
        labels=attempt.request_labels(ask),
        image=policy.placeholder_image,
        # Each piece that is accepted later begins it anew.
        longest=policy.provision_timeout * len(attempt.gang.asks),
    )


def named(request: str, ask: Ask) -> Iterator[tuple[str, int]]:
    """The name of each placeholder of a request, and which PodSet of it it stands for."""
    for index, demand in enumerate(ask.demands):
        for number in range(demand.count):
            yield placeholder_name(request, index, number), index


def pod(owner: Owner, action: Hold, *, name: str, index: int) -> dict[str, Any]:
    """Restricted, without a token, gone at once when it is deleted, and not there for ever when no controller
    is left to do that.
    """
    promise = action.promised[index]
    annotations = dict(promise.claim.annotations) if promise.claim else {}
    return {
        "metadata": {
            "namespace": owner.key.namespace,
            "name": name,
            "labels": dict(action.labels),
            "annotations": {owner.name_annotation: owner.key.name, **annotations},
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            **_where(promise.wanted),
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": ceil(action.longest.total_seconds()),
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(promise.wanted, action.image)],
        },
    }


def _where(wanted: Wanted) -> dict[str, Any]:
    """Where the gang's own pods would go."""
    needs = wanted.needs
    found: dict[str, Any] = {
        "nodeSelector": dict(needs.node_selector),
        "tolerations": [_lean(toleration) for toleration in needs.tolerations],
    }
    if needs.terms:
        required = {"nodeSelectorTerms": msgspec.to_builtins(needs.terms)}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return found


def _container(wanted: Wanted, image: str) -> dict[str, Any]:
    amounts = {name: quantity(name, amount) for name, amount in wanted.needs.amounts.items() if amount}
    # What cannot be overcommitted has to have a limit, or the API server refuses the pod.
    whole = {name: each for name, each in amounts.items() if "/" in name or name.startswith("hugepages-")}
    return {
        "name": "placeholder",
        "image": image,
        "resources": {"requests": amounts, "limits": whole},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def quantity(name: str, amount: Fraction) -> str:
    """Rounded up, so that what is kept is never less than what is needed."""
    return f"{ceil(amount * 1000)}m" if name == "cpu" else str(ceil(amount))


def _lean(toleration: Any) -> Mapping[str, str]:
    return {key: value for key, value in msgspec.to_builtins(toleration).items() if value}
