"""Topology objects of the stack."""

from muster.model import names
from muster.model.kai import Level, Topology
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest


def topologies(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_TOPOLOGY_API_VERSION, "Topology", topology.name, spec=_spec(topology))
        for topology in sorted(stack.kai.topologies, key=lambda topology: topology.name)
    ]


def _spec(topology: Topology) -> Manifest:
    return {"levels": [_level(level) for level in topology.levels]}


def _level(level: Level) -> Manifest:
    alias = {} if level.alias is None else {"alias": level.alias}
    return {"nodeLabel": level.node_label, **alias}
