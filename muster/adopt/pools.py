"""Pools from live nodes: a flavor whose nodes are all alike is a pool of as many nodes as there are now.

With a pool the report of a change shows quotas in GPUs or CPU, and what the pool costs. Its flavor is written
exactly as it is (`kueue.exact`).
"""

from typing import Any

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings
from muster.adopt.flavors import to_flavor
from muster.adopt.nodes import described, shape_of
from muster.adopt.titles import NameBook
from muster.live.fields import text, texts
from muster.model import names
from muster.render.manifest import Manifest


def to_pools(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> pool."""
    book, found = NameBook({names.SYSTEM_POOL}), {}
    for flavor in live.of("ResourceFlavor"):
        nodes = selected(live, flavor)
        pool = _pool(flavor, nodes, findings)
        if pool is not None:
            own = text(flavor, "metadata", "name")
            name = book.take(own, suffix="pool")
            said = {"flavor": own} if name != own else {}
            found[name] = {**pool, "kueue": {**said, "exact": True, **to_flavor(flavor)}}
    return found


def selected(live: LiveCluster, flavor: Manifest) -> list[Manifest]:
    """The nodes that have all labels of the flavor; all nodes for a flavor without labels."""
    wanted = texts(flavor, "spec", "nodeLabels").items()
    return [each for each in live.nodes if wanted <= texts(each, "metadata", "labels").items()]


def _pool(flavor: Manifest, nodes: list[Manifest], findings: Findings) -> dict[str, Any] | None:
    shapes = {shape_of(each) for each in nodes}
    effect = "a flavor without a pool: the report of a change shows no quotas in it"
    if len(shapes) != 1:
        kinds = f"selects {len(nodes)} nodes of {len(shapes)} kinds" if nodes else "selects no node now"
        findings.reworded(title(flavor), "", f"{kinds}, and a pool is of equal nodes.", effect)
        return None
    said = described(shapes.pop(), nodes)
    if said is None:
        reason = "selects nodes with GPUs that no label names."
        findings.reworded(title(flavor), "", reason, effect)
        return None
    return {**said, "maxNodes": len(nodes)}
