"""Why a ClusterQueue starts no job at all: it is inactive, or one of its AdmissionChecks is.

Kueue 0.19 keeps a queue active whose check is being deleted.

Read from their Active conditions. Someone who may not read them gets no reason.
"""

from typing import Final
from urllib.parse import quote

from muster.live.cluster.api import Api
from muster.live.fields import Json, items, mapping, text
from muster.live.sanitize import sanitize_line
from muster.live.web import WebError
from muster.model import names

_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_MAX_MESSAGE: Final = 1000


def fetch_inactivity(api: Api, cluster_queue: str) -> tuple[str, ...]:
    """One line for the queue and one for each of its checks that is inactive."""
    queue = _find(api, "clusterqueues", cluster_queue) if cluster_queue else None
    if queue is None:
        return ()
    checks = [
        text(check, "name") for check in items(queue, "spec", "admissionChecksStrategy", "admissionChecks")
    ]
    found = [("ClusterQueue", cluster_queue, queue)]
    found += [
        ("AdmissionCheck", name, each) for name in checks if (each := _find(api, "admissionchecks", name))
    ]
    return tuple(
        sanitize_line(f"{kind} {name} is inactive: {reason}", longest=_MAX_MESSAGE)
        for kind, name, each in found
        if (reason := inactive_reason(each)) is not None
    )


def is_active(found: Json) -> bool:
    return any(
        text(condition, "type") == "Active" and text(condition, "status") == "True"
        for condition in items(found, "status", "conditions")
    )


def inactive_reason(found: Json) -> str | None:
    """The message of a false Active condition."""
    for condition in items(found, "status", "conditions"):
        if text(condition, "type") == "Active" and text(condition, "status") == "False":
            return text(condition, "message")
    return None


def _find(api: Api, plural: str, name: str) -> Json | None:
    try:
        found = api.find(f"{_KUEUE}/{plural}/{quote(name, safe='')}")
    except WebError as error:
        if error.status != 403:
            raise
        return None
    return None if found is None else mapping(found)
