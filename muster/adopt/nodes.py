"""What a live node is: its machine type, or its size and GPUs as a stack describes them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.adopt.cluster import Findings, LiveCluster, NameBook, named_objects, title
from muster.live.fields import items, mapping, text, texts
from muster.model import names
from muster.model.accelerators import ACCELERATORS
from muster.model.machines import MACHINES
from muster.model.quantities import GIB, MIB, Bytes, Millicores, format_cpu, format_memory, parse_quantity
from muster.model.regions import Provider
from muster.render.manifest import Manifest

# ResourceFlavors and Topologies as `muster:kueue` has them.


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


_TYPE: Final = "node.kubernetes.io/instance-type"
# Labels that name the GPU: GKE's and EKS' own, and those of NVIDIA's feature discovery.
_ACCELERATOR: Final = ("cloud.google.com/gke-accelerator", names.EKS_GPU_LABEL)
# Of NVIDIA's feature discovery and of AMD's node labeller (https://github.com/ROCm/k8s-device-plugin).
_PRODUCTS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
# GKE's label of nodes whose GPUs are cut into slices.
_SLICE: Final = "cloud.google.com/gke-gpu-partition-size"
# The same of NVIDIA's product names, and of GPUs that several containers share.
_PART: Final = re.compile(r"-(mig-|shared$)")
_MEMORY: Final = "nvidia.com/gpu.memory"
_AMD_MEMORY: Final = "amd.com/gpu.vram"
# TPUs are known by their machine alone.
_COUNTED: Final = (names.GPU_RESOURCE, names.AMD_RESOURCE, names.NEURON_RESOURCE)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """`machine` is "" where no table has it. Nodes of one machine, or of one size to the GiB, are alike: of a
    known machine the size is left out.
    """

    machine: str
    gpus: int
    accelerator: str
    gpu_memory: int
    cpu: int
    memory_gib: int


def shape_of(node: Manifest) -> NodeShape:
    labels, capacity = texts(node, "metadata", "labels"), mapping(node, "status", "capacity")
    gpus = sum(int(_amount(capacity.get(resource))) for resource in _COUNTED)
    machine = MACHINES.get(labels.get(_TYPE, ""))
    is_known = (
        machine is not None
        and machine.provider in (Provider.GKE, Provider.EKS)
        and machine.gpu_counts == ((gpus,) if gpus else ())
    )
    return NodeShape(
        machine=machine.name if machine is not None and is_known else "",
        gpus=gpus,
        accelerator=named_accelerator(labels) if gpus else "",
        gpu_memory=_gpu_memory(labels) if gpus else 0,
        cpu=0 if is_known else int(_amount(capacity.get("cpu")) * 1000),
        memory_gib=0 if is_known else round(_amount(capacity.get("memory")) / GIB),
    )


def described(shape: NodeShape, nodes: Iterable[Manifest]) -> dict[str, Any] | None:
    """`machine` or `node` of a pool: of nodes that are alike the least that pods can request. None for GPUs
    that no label names.
    """
    if shape.machine:
        return {"machine": shape.machine}
    rooms = [mapping(each, "status", "allocatable") for each in nodes]
    cpu = min(int(_amount(room.get("cpu")) * 1000) for room in rooms)
    memory = min(int(_amount(room.get("memory"))) for room in rooms) // MIB * MIB
    found: dict[str, Any] = {
        "cpu": cpu // 1000 if cpu % 1000 == 0 else format_cpu(Millicores(cpu)),
        "memory": format_memory(Bytes(memory)),
    }
    if not shape.gpus:
        return {"node": found}
    known = shape.accelerator in ACCELERATORS
    if not shape.accelerator or not (known or shape.gpu_memory):
        return None
    found |= {"gpus": shape.gpus, "accelerator": shape.accelerator}
    return {"node": found if known else {**found, "gpuMemory": f"{shape.gpu_memory}Mi"}}


def _gpu_memory(labels: dict[str, str]) -> int:
    """In MiB. AMD's label is in gigabytes as its data sheets have them: `192G`."""
    amd = labels.get(_AMD_MEMORY, "")
    is_amd = amd[:-1].isdecimal() and amd[-1:] == "G"
    return int(amd[:-1]) * 1024 if is_amd else int(_amount(labels.get(_MEMORY)))


def named_accelerator(labels: dict[str, str]) -> str:
    """A part of a GPU is another accelerator than the whole card."""
    written = next((labels[label] for label in _PRODUCTS if labels.get(label)), "")
    product = re.sub("[._]", "-", written.lower())
    is_part = _PART.search(product) is not None
    for label in _ACCELERATOR:
        if labels.get(label) and not is_part:
            size = labels.get(_SLICE, "").replace(".", "-")
            return f"{labels[label]}-mig-{size}" if size else labels[label]
    for entry in ACCELERATORS.values():
        if entry.product and re.fullmatch(entry.product, product) and not is_part:
            return entry.name
    vendor = "amd" if labels.get(_PRODUCTS[1]) else "nvidia"
    return product if not product or product.startswith(f"{vendor}-") else f"{vendor}-{product}"


def _amount(value: object) -> Any:
    try:
        return parse_quantity(str(value))
    except ValueError:
        return parse_quantity("0")


# Pools from live nodes: a flavor whose nodes are all alike is a pool of as many nodes as there are now.
# With a pool the report of a change shows quotas in GPUs or CPU, and what the pool costs. Its flavor is
# written exactly as it is (`kueue.exact`).


_NO_POOL: Final = "a flavor without a pool: the report of a change shows no quotas in it"


def to_pools(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> pool."""
    if not (live.is_whole or live.nodes):
        no_nodes(findings)
        return {}
    book, found, made = NameBook({names.SYSTEM_POOL}), {}, _pools(live, findings)
    for flavor in live.of("ResourceFlavor"):
        own = text(flavor, "metadata", "name")
        if own in made:
            name = book.take(own, suffix="pool")
            said = {"flavor": own} if name != own else {}
            found[name] = {**made[own], "kueue": {**said, "exact": True, **to_flavor(flavor)}}
    return found


def _pools(live: LiveCluster, findings: Findings) -> dict[str, dict[str, Any]]:
    """Flavor -> pool. A node is in one: that of a flavor of queues, and among these of the most labels."""
    used, owners = named_objects(live)["ResourceFlavor"], dict[str, str]()
    found: dict[str, dict[str, Any]] = {}

    def rank(flavor: Manifest) -> tuple[bool, int]:
        return text(flavor, "metadata", "name") not in used, -len(texts(flavor, "spec", "nodeLabels"))

    for flavor in sorted(live.of("ResourceFlavor"), key=rank):
        own, nodes = text(flavor, "metadata", "name"), selected(live, flavor)
        if (pool := _pool(flavor, nodes, findings)) is None:
            continue
        places = [text(each, "metadata", "name") for each in nodes]
        if other := next((owners[each] for each in places if each in owners), ""):
            reason = f"selects nodes that are in the pool of flavor {other}."
            findings.reworded(title(flavor), "", reason, _NO_POOL)
            continue
        owners |= dict.fromkeys(places, own)
        found[own] = pool
    return found


def no_nodes(findings: Findings) -> None:
    """What files without Nodes lack."""
    effect = (
        "no pools: the report of a change shows no quotas. Add what `kubectl get nodes --output yaml` writes "
        "to the files, or write muster:pools"
    )
    findings.reworded("Nodes", "", "are in no file.", effect)


def selected(live: LiveCluster, flavor: Manifest) -> list[Manifest]:
    """The nodes that have all labels of the flavor; all nodes for a flavor without labels."""
    wanted = texts(flavor, "spec", "nodeLabels").items()
    return [each for each in live.nodes if wanted <= texts(each, "metadata", "labels").items()]


def _pool(flavor: Manifest, nodes: list[Manifest], findings: Findings) -> dict[str, Any] | None:
    shapes = {shape_of(each) for each in nodes}
    if len(shapes) != 1:
        kinds = f"selects {len(nodes)} nodes of {len(shapes)} kinds" if nodes else "selects no node now"
        findings.reworded(title(flavor), "", f"{kinds}, and a pool is of equal nodes.", _NO_POOL)
        return None
    said = described(shapes.pop(), nodes)
    if said is None:
        reason = "selects nodes with GPUs that no label names."
        findings.reworded(title(flavor), "", reason, _NO_POOL)
        return None
    return {**said, "maxNodes": len(nodes)}
