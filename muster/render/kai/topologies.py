"""Topology objects of the stack."""

from muster.model import names
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest


def topologies(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_TOPOLOGY_API_VERSION, "Topology", topology.name, spec=dict(topology.spec))
        for topology in sorted(stack.kai.topologies, key=lambda topology: topology.name)
    ]
