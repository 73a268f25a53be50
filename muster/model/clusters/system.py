"""The system pool: the nodes of Kueue, KubeRay, the GPU Operator's controllers and Muster's own.

It is separate from all pools of work, so that no job can evict them, and it has no GPU.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from muster.model.keys import Schema, SchemaWriter, declared, read
from muster.model.machines import MACHINES, Machine, machines_of, similar_machines
from muster.model.regions import Provider
from muster.model.section import Section
from muster.model.violations import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """Two nodes by default, so that the replicas of a component can be on different nodes. `min_nodes` may be
    0 where the autoscaler runs outside of the cluster (GKE).
    """

    machine: Machine
    min_nodes: int = declared("Minimum number of nodes, over all zones; 0 only on GKE.", 2, maximum=100)
    max_nodes: int = declared("Maximum number of nodes, over all zones.", 6, minimum=1, maximum=1000)


def declared_system_pool(provider: Provider, machine: str) -> Any:
    """The field of a cluster, whose nodes are `machine` by default."""
    return declared(
        "The nodes of Kueue, KubeRay and the other controllers.",
        {},
        factory=lambda: SystemPool(machine=MACHINES[machine]),
        read=partial(_read_system_pool, provider, machine),
        schema=partial(_schema, provider, machine),
    )


def _read_system_pool(provider: Provider, default: str, cluster: Section, key: str) -> SystemPool:
    section = cluster.section(key)
    known = machines_of(provider)
    name = section.text("machine") or default
    if name not in known:
        message = f"{name!r} is not in the machine table of provider {provider}."
        near = similar_machines(name, known)
        listed = "choose one that it has: `muster explain cluster.systemPool.machine` lists them."
        section.note("machine", message, suggestion(name, near, noun="machine") if near else listed)
    pool = read(SystemPool, section, machine=known.get(name, known[default]))
    return pool or SystemPool(machine=known[default])


def _schema(provider: Provider, default: str, writer: SchemaWriter) -> Schema:
    machine = {
        "type": "string",
        "enum": sorted(machines_of(provider)),
        "description": f"The machine type. Default: {default}.",
        "default": default,
        "examples": [default],
    }
    pool = writer.of_class(SystemPool)
    return {**pool, "properties": {"machine": machine, **pool["properties"]}}
