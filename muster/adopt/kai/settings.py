"""KAI's own settings: its shard, its topologies and its priority classes."""

from collections.abc import Mapping
from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings
from muster.live.fields import items, mapping, text
from muster.model.kai import ShardSettings
from muster.model.kai.partition import DEFAULT_SHARD

_USAGE: Final = "usageDBConfig"
_CONNECTION: Final = "connectionString"


def to_settings(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The value of `muster:kai`. One shard: then every team has one Queue."""
    values: dict[str, Any] = {
        "shard": _shard(live, findings),
        "topologies": {
            text(each, "metadata", "name"): {
                "levels": [dict(level) for level in items(mapping(each, "spec"), "levels")]
            }
            for each in live.kai.get("Topology", ())
        },
    }
    return {"install": False, "sharding": "one", **{key: value for key, value in values.items() if value}}


def _shard(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The settings of the default shard, which have the same names in a stack."""
    found: dict[str, Any] = {}
    is_there = False
    for each in live.kai.get("SchedulingShard", ()):
        if text(each, "metadata", "name") == DEFAULT_SHARD:
            spec, is_there = mapping(each, "spec"), True
            found = ShardSettings.adopt(spec)
            if _CONNECTION in mapping(found.get(_USAGE)):
                reason = "may carry a password, which a stack file may not."
                findings.lost(
                    title(each), f"spec.{_USAGE}.{_CONNECTION}", reason, "left out; it stays on the object"
                )
                found[_USAGE] = {key: value for key, value in found[_USAGE].items() if key != _CONNECTION}
        else:
            reason = f"a stack that takes Queues over has the shard {DEFAULT_SHARD!r} alone."
            findings.reworded(title(each), "", reason, "left out; the object stays as it is")
    if not is_there:
        reason = "does not exist, and every stack with KAI has one."
        effect = (
            "the first `pulumi up` creates it: one more scheduler, for nodes and work without a pool's label"
        )
        findings.lost(f"SchedulingShard {DEFAULT_SHARD}", "", reason, effect)
    return found


def to_priorities(live: LiveCluster) -> dict[str, Any]:
    """KAI's own classes with the values of the cluster, the highest first."""
    classes: tuple[Mapping[str, Any], ...] = live.kai.get("PriorityClass", ())
    highest = sorted(classes, key=lambda each: -int(each.get("value") or 0))
    return {text(each, "metadata", "name"): _priority(each) for each in highest}


def _priority(found: Mapping[str, Any]) -> Any:
    value, description = int(found.get("value") or 0), text(found, "description")
    return {"value": value, "description": description} if description else value
