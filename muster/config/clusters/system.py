"""Reads `systemPool` of a cluster."""

from muster.config import bounds
from muster.model.clusters import Provider, SystemPool
from muster.model.machines import machines_of, similar_machines
from muster.model.section import Section
from muster.model.violations import suggestion


def parse_system(cluster: Section, provider: Provider, default: SystemPool) -> SystemPool:
    section = cluster.section("systemPool")
    machine = default.machine
    name = section.text("machine")
    known = machines_of(provider)
    if name is not None and name not in known:
        message = f"{name!r} is not in the machine table of provider {provider}."
        near = similar_machines(name, known)
        listed = "choose one that it has: `muster explain cluster.systemPool.machine` lists them."
        section.note("machine", message, suggestion(name, near, noun="machine") if near else listed)
    elif name is not None:
        machine = known[name]
    least = section.integer("minNodes", default.min_nodes, **bounds.FEWEST_SYSTEM_NODES)
    most = section.integer("maxNodes", default.max_nodes, **bounds.MOST_SYSTEM_NODES)
    section.close()
    return SystemPool(
        machine=machine,
        min_nodes=default.min_nodes if least is None else least,
        max_nodes=most or default.max_nodes,
    )
