"""WorkloadPriorityClasses as `muster:priorities`."""

from typing import Any

from muster.adopt.cluster import LiveCluster
from muster.live.fields import text


def to_priorities(live: LiveCluster) -> dict[str, Any]:
    """Name -> value, with the description where there is one."""
    found: dict[str, Any] = {}
    for each in live.of("WorkloadPriorityClass"):
        description = text(each, "description")
        value = each.get("value")
        found[text(each, "metadata", "name")] = (
            {"value": value, "description": description} if description else value
        )
    return dict(sorted(found.items(), key=lambda entry: -_value(entry[1])))


def _value(said: Any) -> int:
    return int(said["value"] if isinstance(said, dict) else said or 0)
