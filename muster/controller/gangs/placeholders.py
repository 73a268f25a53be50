"""Pods that hold nodes for a gang that is not complete yet (`onStaggered: hold`).

Responsible for when a finished request is consumed by placeholder pods, and for their spec: as many as the
gang will have there, of the same size, on the same nodes. They start when the booking is about to end and are
deleted in the step that lets the gang start. The deadlines bound how long that lasts: the nodes are paid for
meanwhile, which a policy with `hold` accepts.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, Final

import msgspec

from muster.controller.gangs.actions import CreatePlaceholders
from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.capacity_claims import claims_of_request, missing_detail
from muster.controller.gangs.deadlines import booking_end
from muster.controller.gangs.identity import placeholder_name, request_of_placeholder
from muster.controller.gangs.owner import Owner
from muster.controller.gangs.placeholder_sets import PlaceholderSet, again_at
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.verify import PodDemand
from muster.model.gangpolicy import GangPolicy

_NOBODY_UID: Final = 65535


def due(attempt: Attempt, policy: GangPolicy) -> tuple[CreatePlaceholders, ...]:
    """The requests whose nodes must be held from now on."""
    if not policy.holds:
        return ()
    moments = (
        (spec, booking_end(attempt.current[spec.shape], policy, now=attempt.now)) for spec in _open(attempt)
    )
    return tuple(
        _create_placeholders(attempt, spec, policy) for spec, at in moments if at and at <= attempt.now
    )


def sets(attempt: Attempt) -> Iterator[PlaceholderSet]:
    """Those that are asked for now."""
    return (each for each in attempt.current.values() if isinstance(each, PlaceholderSet))


def resting(attempt: Attempt) -> Mapping[str, datetime]:
    """Until when the places of placeholders that have ended, or have lost their node, are not tried again, by
    the name of the pod: the scheduler may choose the same node each time.
    """
    policy, until = attempt.policy or GangPolicy(), dict[str, datetime]()
    requests = {request.metadata.name: request for request in attempt.current.values()}
    lost = {pod.metadata.name for each in sets(attempt) for pod in each.lost}
    for pod in attempt.placeholders:
        request = requests.get(request_of_placeholder(pod.metadata.name))
        if request is None or not (pod.status.has_ended or pod.metadata.name in lost):
            continue
        is_set = isinstance(request, PlaceholderSet)
        created, booked = request.metadata.creation_timestamp, booking_end(request, policy, now=attempt.now)
        at = again_at(pod, asked=created if is_set else booked)
        if at and at > attempt.now:
            until[pod.metadata.name] = at
    return until


def next_due(attempt: Attempt, policy: GangPolicy) -> datetime | None:
    """When the nodes of the first finished request must be held."""
    if not policy.holds:
        return None
    moments = (booking_end(attempt.current[spec.shape], policy, now=attempt.now) for spec in _open(attempt))
    return min((at for at in moments if at and at > attempt.now), default=None)


def _open(attempt: Attempt) -> Iterator[RequestSpec]:
    """Requests that are provisioned and have fewer placeholders than pods."""
    alive = (item.metadata.name for item in attempt.placeholders if not item.status.has_ended)
    held = {*alive, *resting(attempt)}
    for spec in attempt.gang.request_specs:
        request = attempt.current.get(spec.shape)
        if request is None or not request.status.holds("Provisioned") or missing_detail(spec, request):
            continue
        if spec.flavor.by_placeholders:
            continue  # Pods keep its nodes from the beginning.
        if not {name for name, _ in named(request.metadata.name, spec)} <= held:
            yield spec


def _create_placeholders(attempt: Attempt, spec: RequestSpec, policy: GangPolicy) -> CreatePlaceholders:
    request = attempt.current[spec.shape]
    return CreatePlaceholders(
        request=request.metadata.name,
        spec=spec,
        capacity_claims=claims_of_request(spec, request),
        labels=attempt.request_labels(spec),
        image=policy.placeholder_image,
        # Each request that is accepted later starts it again.
        max_lifetime=policy.provision_timeout * len(attempt.gang.request_specs),
    )


def named(request: str, spec: RequestSpec) -> Iterator[tuple[str, int]]:
    """The name of each placeholder of a request, and the PodSet that it replaces."""
    for index, demand in enumerate(spec.demands):
        for number in range(demand.count):
            yield placeholder_name(request, index, number), index


def pod(owner: Owner, action: CreatePlaceholders, *, name: str, index: int) -> dict[str, Any]:
    """Restricted, without a token, gone at once when it is deleted, and not there forever when no controller
    is left to do that.
    """
    claim = action.capacity_claims[index]
    annotations = dict(claim.pod_claim.annotations) if claim.pod_claim else {}
    return {
        "metadata": {
            "namespace": owner.key.namespace,
            "name": name,
            "labels": dict(action.labels),
            "annotations": {owner.name_annotation: owner.key.name, **annotations},
            "ownerReferences": [owner.reference()],
        },
        "spec": waiting_spec(claim.demand, action.image, max_lifetime=action.max_lifetime),
    }


def waiting_spec(demand: PodDemand, image: str, *, max_lifetime: timedelta) -> dict[str, Any]:
    """A pod that takes the place of one of these and only waits."""
    return {
        **_where(demand),
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": ceil(max_lifetime.total_seconds()),
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY_UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(demand, image)],
    }


def _where(demand: PodDemand) -> dict[str, Any]:
    """Where the gang's own pods would go."""
    needs = demand.needs
    found: dict[str, Any] = {
        "nodeSelector": dict(needs.node_selector),
        "tolerations": [_lean(toleration) for toleration in needs.tolerations],
    }
    if needs.runtime_class:
        # The API server then adds its node selector, tolerations and overhead, as to the gang's own pods.
        found["runtimeClassName"] = needs.runtime_class
    if needs.terms:
        required = {"nodeSelectorTerms": msgspec.to_builtins(needs.terms)}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return found


def _container(demand: PodDemand, image: str) -> dict[str, Any]:
    overhead = demand.needs.overhead or {}
    own = {name: amount - overhead.get(name, 0) for name, amount in demand.needs.amounts.items()}
    amounts = {name: quantity(name, amount) for name, amount in own.items() if amount > 0}
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
    """Rounded up to what the API takes, so that what is kept is never less than what is needed."""
    return f"{ceil(amount * 1000)}m" if name == "cpu" else str(ceil(amount))


def _lean(toleration: Any) -> Mapping[str, str]:
    return {key: value for key, value in msgspec.to_builtins(toleration).items() if value}
