"""Conditions of an untrusted object, and what Kueue writes into them."""

import re
from collections.abc import Mapping
from typing import Final

from muster.live.fields import items, text

# Kueue writes the preemptor's uid into the victim's condition (pkg/scheduler/preemption of 0.19).
_PREEMPTOR: Final = re.compile(r"\(UID: ([0-9a-f-]{36})")


def find_condition(workload: object, kind: str) -> Mapping[str, object]:
    """A condition, empty where there is none."""
    return next((each for each in items(workload, "status", "conditions") if text(each, "type") == kind), {})


def is_true(workload: object, kind: str) -> bool:
    """Whether a condition is True."""
    return text(find_condition(workload, kind), "status") == "True"


def parse_preemptor(workload: object) -> tuple[str, str]:
    """(uid, reason) of the preemption in the Workload's conditions; ("", "") without one."""
    preempted = find_condition(workload, "Preempted")
    if text(preempted, "status") != "True":
        return "", ""
    found = _PREEMPTOR.search(text(preempted, "message"))
    return (found[1] if found else ""), text(preempted, "reason")
