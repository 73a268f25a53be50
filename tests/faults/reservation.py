"""A Workload's reservation of quota, at one moment: what it entitles to, and whether it ends by itself."""

import re
from typing import Any, Final

from tests.faults.gangs import entry, holds

Json = dict[str, Any]

_END: Final = re.compile(r"; releases at (\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)? UTC$")


def is_over(workload: Json) -> bool:
    """It runs no more, or goes."""
    return holds(workload, "Finished") or "deletionTimestamp" in workload["metadata"]


def may_hold(workload: Json | None) -> bool:
    """Whether anything may lie in the cluster for it: it has quota, and nobody is taking that away."""
    if workload is None or is_over(workload) or not (workload.get("spec") or {}).get("active", True):
        return False
    return holds(workload, "QuotaReserved") and not holds(workload, "Evicted")


def gathers(workload: Json | None) -> bool:
    """It has quota and does not run."""
    return may_hold(workload) and not holds(workload, "Admitted")


def says_its_end(workload: Json | None) -> bool:
    """It gathers, and its check says until when."""
    said = entry(workload)
    is_told = said.get("state") == "Pending" and _END.search(said.get("message", ""))
    return gathers(workload) and bool(is_told)


def is_unbounded(workload: Json) -> bool:
    """It holds quota without running, and nobody says until when. Also while an answer of ours or an eviction
    is Kueue's to act on: that lasts as long as Kueue takes.
    """
    is_held = holds(workload, "QuotaReserved") and not is_over(workload)
    return is_held and not holds(workload, "Admitted") and not says_its_end(workload)


def since(workload: Json) -> str:
    """When QuotaReserved came to be as it is, in whole seconds."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    found = (each for each in conditions if each["type"] == "QuotaReserved")
    return next((str(each.get("lastTransitionTime", "")) for each in found), "")
