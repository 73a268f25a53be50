"""ResourceFlavor of every pool, and those that belong to no pool; the Topologies that they refer to.

Kueue distinguishes pools by the pool label and those of their cloud (model/node_labels.py), and GPU pools
also by their taint.

The taint keeps a gang's CPU head on a CPU pool. A GPU flavor also has CPU and memory quota, for its GPU
pods, and Kueue tries the next flavor whenever the CPU flavor is full. A pod or the flavor's own
`tolerations` must tolerate a flavor's `nodeTaints`. With that toleration in the flavor, a CPU head would be
assigned to a GPU pool as soon as the CPU pool is full, and would wait there for a node that is never
requested. So the flavor does not have it, and a GPU pod tolerates `nvidia.com/gpu` in its template. GKE adds
a second taint to the nodes of a queued pool, and another to arm64 nodes; they distinguish nothing, and the
flavor tolerates them.

Of other accelerators the same holds with their resource as the taint. GKE chooses a slice of TPUs by two
labels of the pods' node selectors, which come from the flavor.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster.model import names
from muster.model.gpu_operator import cloud_of
from muster.model.keys import to_json
from muster.model.kueue import Effect, Flavor, Operator, PoolOptions, Toleration
from muster.model.machines import ARM64
from muster.model.node_labels import class_label, flavor_labels
from muster.model.pools import Pool
from muster.model.regions import NodeCloud
from muster.model.stack import Stack
from muster.render.manifest import Manifest, kueue

# GKE taints arm64 nodes with it, unless the node pool says otherwise. Source: TaintConfig,
# https://docs.cloud.google.com/dotnet/docs/reference/Google.Cloud.Container.V1/latest, read 2026-11-27.
# GPUs that come with a Grace CPU: all that is known of a node that Muster does not make.
_ON_ARM: Final = ("nvidia-gh200", "nvidia-gb200", "nvidia-gb300")


def topologies(stack: Stack) -> list[Manifest]:
    return [
        kueue("Topology", each.name, spec={"levels": [{"nodeLabel": label} for label in each.levels]})
        for each in stack.kueue.topologies
    ]


def flavors(stack: Stack) -> list[Manifest]:
    labels = flavor_labels(stack)
    ours = [
        kueue("ResourceFlavor", pool.flavor, spec=_pool(pool, stack, labels[pool.name]))
        for pool in stack.pools
    ]
    return [*ours, *(kueue("ResourceFlavor", each.name, spec=_other(each)) for each in stack.kueue.flavors)]


def device_taint(pool: Pool) -> dict[str, str]:
    return {"key": pool.device, "value": names.GPU_TAINT_VALUE, "effect": names.GPU_TAINT_EFFECT}


def _pool(pool: Pool, stack: Stack, labels: Mapping[str, str]) -> Manifest:
    said = pool.kueue
    if said.exact:
        return _other(said)
    taints = [device_taint(pool)] if pool.is_gpu else []
    return _spec(
        labels=labels,
        taints=[*taints, *map(to_json, said.node_taints)],
        tolerations=[*_of_gke(pool, stack), *said.tolerations],
        topology=said.topology,
    )


def _of_gke(pool: Pool, stack: Stack) -> list[Toleration]:
    found = [names.GKE_QUEUED_TAINT_KEY] if pool.provisioning_class == names.GKE_QUEUED_CLASS else []
    found += class_label(pool, stack)
    is_arm = pool.machine.architecture == ARM64 or (pool.accelerator and pool.accelerator.name in _ON_ARM)
    if cloud_of(stack.cluster) is NodeCloud.GKE and is_arm:
        # https://cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment
        found.append(names.ARCHITECTURE_LABEL)
    return [Toleration(key=key, operator=Operator.EXISTS, effect=Effect.NO_SCHEDULE) for key in found]


def _other(flavor: Flavor | PoolOptions) -> Manifest:
    """The flavor as it is written."""
    return _spec(
        labels=flavor.node_labels,
        taints=list(map(to_json, flavor.node_taints)),
        tolerations=flavor.tolerations,
        topology=flavor.topology,
    )


def _spec(
    *,
    labels: Mapping[str, str],
    taints: list[dict[str, str]],
    tolerations: Iterable[Toleration],
    topology: str | None,
) -> Manifest:
    spec: Manifest = {}
    if labels:
        spec["nodeLabels"] = dict(sorted(labels.items()))
    if taints:
        spec["nodeTaints"] = taints
    tolerated = [_toleration(each) for each in tolerations]
    if tolerated:
        spec["tolerations"] = tolerated
    if topology is not None:
        spec["topologyName"] = topology
    return spec


def _toleration(toleration: Toleration) -> Manifest:
    found: Manifest = {"operator": toleration.operator.value}
    for key, value in (
        ("key", toleration.key),
        ("value", toleration.value),
        ("effect", toleration.effect.value if toleration.effect else ""),
    ):
        if value:
            found[key] = value
    if toleration.seconds is not None:
        found["tolerationSeconds"] = toleration.seconds
    return found
