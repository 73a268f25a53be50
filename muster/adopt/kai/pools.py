"""Pools from live nodes: KAI's Queues name none, so all nodes that are alike are one pool."""

from typing import Any

from muster.adopt.cluster import LiveCluster
from muster.adopt.findings import Findings
from muster.adopt.nodes import NodeShape, described, shape_of
from muster.adopt.titles import NameBook
from muster.model import names
from muster.render.manifest import Manifest


def to_pools(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> pool."""
    by_shape: dict[NodeShape, list[Manifest]] = {}
    for each in live.nodes:
        by_shape.setdefault(shape_of(each), []).append(each)
    book, found = NameBook({names.SYSTEM_POOL}), {}
    for shape, nodes in by_shape.items():
        said = described(shape, nodes)
        if said is None:
            reason = f"{len(nodes)} have GPUs that no label names."
            findings.reworded("Nodes", "", reason, "no pool: the report of a change shows no quotas in it")
            continue
        found[book.take(_title(shape), suffix="nodes")] = {**said, "maxNodes": len(nodes)}
    return found


def _title(shape: NodeShape) -> str:
    return shape.accelerator.removeprefix("nvidia-") or "cpu"
