"""Waits that follow an apply: a CRD is served, a ResourceQuota is counted, a dry run is accepted.

Each wait is bounded, names on the status line what it waits for, and ends at once when the engine cancels.
Which objects are applied, and in which order, is `converge.py`'s business.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster.kubernetes.errors import ApiError
from muster.provider.api import Cluster, Deadline, DeadlineError
from muster.provider.manifests import Item, Ref

# The field manager of everything that this provider applies.
MANAGER = "muster"

LogStatus = Callable[[str], None]

_POLL = 0.25
_SLOW_POLL = 1.0
# kube-controller-manager looks for new kinds every 30 s and then fills their caches for up to 30 s more.
_QUOTA_TIMEOUT = 240.0
_RECOUNT_INTERVAL = 10.0
# A quota over a kind that does not exist: counting it again is what we are after.
_RECOUNT = {"count/recount.muster.dev": "0"}
_DRY_RUN_TIMEOUT = 120.0
# Policies and webhooks come into force one after another; a denial that lasts longer is meant.
_DENIAL_TIMEOUT = 10.0


async def await_established(cluster: Cluster, ref: Ref, live: Mapping[str, Any], deadline: Deadline) -> None:
    """A CRD can be used once the API server serves it.

    Discovery says so in a few bytes. The CRD itself, whose schema may be a megabyte, is read once a second.
    """
    current: Mapping[str, Any] | None = live
    plural, _, group = ref.name.partition(".")
    until = deadline.within(_SLOW_POLL)
    while not _condition(current, "Established"):
        await deadline.sleep(_POLL)
        if await cluster.serves(plural, group, deadline):
            return
        if until.remaining() <= 0:
            current, until = await cluster.get(ref, deadline), deadline.within(_SLOW_POLL)
        if _condition(current, "NamesAccepted", status="False"):
            raise DeadlineError("its names are taken by another CRD; see its condition NamesAccepted")


def _condition(live: Mapping[str, Any] | None, kind: str, status: str = "True") -> bool:
    conditions = ((live or {}).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == status for each in conditions)


async def await_counted(cluster: Cluster, item: Item, deadline: Deadline, log_status: LogStatus) -> None:
    """Wait until kube-controller-manager has counted every name of a ResourceQuota.

    Until then the API server refuses each new object of those kinds with `status unknown for quota`. Raises
    DeadlineError, which names what is missing. Kinds that the cluster does not serve are not waited for.
    """
    limit = deadline.within(_QUOTA_TIMEOUT)
    recount = deadline.within(_RECOUNT_INTERVAL)
    missing: list[str] = []
    try:
        while missing := await _missing(cluster, item, limit):
            log_status(f"waiting for kube-controller-manager to count {', '.join(missing)} in {item.ref}")
            await limit.sleep(_SLOW_POLL)
            if recount.remaining() <= 0:
                await _request_recount(cluster, item, limit)
                recount = deadline.within(_RECOUNT_INTERVAL)
    except DeadlineError as error:
        raise DeadlineError(_not_counted(missing, error)) from None


async def _missing(cluster: Cluster, item: Item, deadline: Deadline) -> list[str]:
    """What is not counted, without counts of a kind that the cluster does not serve."""
    missing = []
    for name in uncounted(item.body, await cluster.get(item.ref, deadline)):
        plural, _, group = name.removeprefix("count/").partition(".")
        if not name.startswith("count/") or await cluster.serves(plural, group, deadline):
            missing.append(name)
    return missing


def uncounted(applied: Mapping[str, Any], live: Mapping[str, Any] | None) -> list[str]:
    """The names of a quota's `spec.hard` that its status does not cover yet.

    A name is covered when it is in `status.hard`, and a count of objects also has to be in
    `status.used`: for a kind that the controller does not know yet it fills in the first and not the second.
    Other names that it does not know are never counted, and nothing is refused because of them.
    """
    status = (live or {}).get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    return sorted(
        name
        for name in (applied.get("spec") or {}).get("hard") or {}
        if name not in hard or (name.startswith("count/") and name not in used)
    )


async def _request_recount(cluster: Cluster, item: Item, deadline: Deadline) -> None:
    """Change `spec.hard` and change it back.

    The controller recounts a quota when its `spec.hard` changes, and otherwise every five minutes, also when
    it has come to know a kind in between (UpdateFunc and enqueueAll in
    pkg/controller/resourcequota/resource_quota_controller.go).
    """
    spec = item.body["spec"]
    try:
        for extra in (_RECOUNT, {}):
            body = {**item.body, "spec": {**spec, "hard": {**spec["hard"], **extra}}}
            await cluster.apply(item.ref, body, deadline, manager=MANAGER, force=False)
    except ApiError:
        return  # The periodic recount is still to come.


def _not_counted(missing: list[str], error: DeadlineError) -> str:
    names = ", ".join(missing) or "the quota"
    return (
        f"kube-controller-manager has not counted {names} ({error}), so the API server refuses new objects "
        "of these kinds with `status unknown for quota`. Fix: see that kube-controller-manager runs and that "
        "the kinds are served (`kubectl api-resources`; an APIService that is not available holds it up: "
        "`kubectl get apiservices`), then run this again"
    )


async def await_accepted(
    cluster: Cluster, item: Item, deadline: Deadline, log_status: LogStatus
) -> str | None:
    """Wait until the API server accepts the creation of an object in a dry run.

    Returns the denial of a webhook or policy that lasts, None when the object was accepted. Raises
    DeadlineError when the quota does not answer in time.
    """
    limit, denial = deadline.within(_DRY_RUN_TIMEOUT), deadline.within(_DENIAL_TIMEOUT)
    refusal = "no answer"
    try:
        while (error := await _refusal(cluster, item, limit)) is not None:
            refusal = error.text
            if not error.quota_unknown and denial.remaining() <= 0:
                return refusal
            log_status(f"waiting until a dry run of {item.ref.kind} is accepted: {refusal}")
            await limit.sleep(_SLOW_POLL)
    except DeadlineError as error:
        raise DeadlineError(f"a dry run was not accepted ({error}): {refusal}") from None
    return None


async def _refusal(cluster: Cluster, item: Item, deadline: Deadline) -> ApiError | None:
    """Why a dry run is refused now. Raises ApiError for a failure of the server or a webhook."""
    try:
        await cluster.create(item.ref, item.body, deadline, dry_run=True)
    except ApiError as error:
        if error.status >= 500:
            raise
        # Both come after webhooks and policies; the second means that the quota is counted.
        return None if error.already_exists or error.quota_exceeded else error
    return None
