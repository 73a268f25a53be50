"""ResourceFlavors and Topologies as `muster:kueue` has them."""

from collections.abc import Mapping
from typing import Any

from muster.adopt.cluster import LiveCluster
from muster.live.fields import items, mapping, text, texts
from muster.render.manifest import Manifest


def to_flavor(flavor: Manifest) -> dict[str, Any]:
    """The flavor with exactly its labels, taints and tolerations."""
    spec = mapping(flavor, "spec")
    values = {
        "nodeLabels": texts(spec, "nodeLabels"),
        "nodeTaints": [_taint(each) for each in items(spec, "nodeTaints")],
        "tolerations": [_toleration(each) for each in items(spec, "tolerations")],
        "topology": text(spec, "topologyName"),
    }
    return {key: value for key, value in values.items() if value}


def to_topologies(live: LiveCluster) -> dict[str, list[str]]:
    """Name -> node labels, from the widest level to the narrowest."""
    return {
        text(each, "metadata", "name"): [
            text(level, "nodeLabel") for level in items(mapping(each, "spec"), "levels")
        ]
        for each in live.of("Topology")
    }


def _taint(found: Mapping[str, object]) -> dict[str, str]:
    return {key: text(found, key) for key in ("key", "value", "effect") if text(found, key)}


def _toleration(found: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {
        key: text(found, key) for key in ("key", "operator", "value", "effect") if text(found, key)
    }
    if found.get("tolerationSeconds") is not None:
        values["seconds"] = found["tolerationSeconds"]
    return values
