"""The configuration of each of KAI's schedulers, as KAI's operator derives it from a SchedulingShard.

Follows KAI 0.12.0 (pkg/operator/operands/scheduler/resources_for_shard.go), except that actions and plugins
can be switched off and get arguments, as 0.13 does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.live.fields import mapping, text, texts
from muster.model import names
from muster.model.kai.shard import Sharding
from muster.model.kai.tree import sharding
from muster.model.stack import Stack
from muster.render import kai
from muster.replay.kai_player import Shard
from muster.replay.player import UnplayableError

_SPREAD: Final = "spread"
_PLUGINS: Final = (
    "predicates",
    "proportion",
    "priority",
    "nodeavailability",
    "resourcetype",
    "podaffinity",
    "elastic",
    "kubeflow",
    "ray",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "minruntime",
    "topology",
)


def to_shards(stack: Stack) -> list[Shard]:
    """Every scheduler of the stack. UnplayableError where KAI 0.12 has no such setting."""
    key = names.POOL_LABEL if sharding(stack) is Sharding.PER_POOL else ""
    return [_to_shard(each, label_key=key) for each in kai.shards(stack)]


def _to_shard(manifest: Mapping[str, Any], *, label_key: str) -> Shard:
    spec = manifest["spec"]
    flags = {
        "nodepool-label-key": label_key,
        "partition-label-value": text(spec, "partitionLabelValue"),
        **texts(spec, "args"),
    }
    return Shard(args=[f"--{name}={value}" for name, value in flags.items()], config=to_config(spec))


def to_config(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The scheduler's configuration file for a shard of this spec."""
    for kind in ("actions", "plugins"):
        for name, settings in mapping(spec, kind).items():
            if "priority" in mapping(settings):
                raise UnplayableError(f"KAI 0.12 has no priority of {kind}, which {name} has")
    plugins = [
        each for each in _plugins(spec) if mapping(spec, "plugins", each["name"]).get("enabled") is not False
    ]
    actions = [each for each in _actions(spec) if mapping(spec, "actions", each).get("enabled") is not False]
    return {
        "actions": ", ".join(actions),
        "tiers": [{"plugins": [_with_arguments(each, spec) for each in plugins]}],
        **{key: spec[key] for key in ("queueDepthPerAction", "usageDBConfig") if key in spec},
    }


def _actions(spec: Mapping[str, Any]) -> Iterator[str]:
    yield "allocate"
    if _SPREAD not in _placement(spec).values():
        yield "consolidation"
    yield from ("reclaim", "preempt", "stalegangeviction")


def _plugins(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    placement = _placement(spec)
    arguments = {"proportion": {"kValue": f"{spec['kValue']:g}"}} if "kValue" in spec else {}
    for name in _PLUGINS:
        yield {"name": name, **({"arguments": arguments[name]} if name in arguments else {})}
    yield {"name": f"gpu{placement['gpu'].removeprefix('bin')}"}
    yield {"name": "nodeplacement", "arguments": placement}
    if placement["gpu"] != _SPREAD:
        yield {"name": "gpusharingorder"}
    protection = texts(spec, "minRuntime")
    if protection:
        defaults = {f"default{key[0].upper()}{key[1:]}": value for key, value in protection.items()}
        yield {"name": "minruntime", "arguments": defaults}


def _placement(spec: Mapping[str, Any]) -> dict[str, str]:
    return {"gpu": "binpack", "cpu": "binpack", **texts(spec, "placementStrategy")}


def _with_arguments(plugin: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    own = texts(spec, "plugins", plugin["name"], "arguments")
    return {**plugin, "arguments": own} if own else plugin
