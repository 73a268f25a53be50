"""Which objects of a stack are created on the temporary control plane.

Admission checks are left out and count as Ready, because whether a cloud has capacity cannot be known.
"""

from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.render import kueue
from muster.render.manifest import Manifest

# Kind -> path, in the order in which the objects refer to each other.
_KINDS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Topology": f"/apis/{names.KUEUE_API_VERSION}/topologies",
    "ResourceFlavor": f"/apis/{names.KUEUE_API_VERSION}/resourceflavors",
    "WorkloadPriorityClass": f"/apis/{names.KUEUE_API_VERSION}/workloadpriorityclasses",
    "Cohort": f"/apis/{names.KUEUE_API_VERSION}/cohorts",
    "ClusterQueue": f"/apis/{names.KUEUE_API_VERSION}/clusterqueues",
    "LocalQueue": f"/apis/{names.KUEUE_API_VERSION}/namespaces/{{namespace}}/localqueues",
}
_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"


ManifestBatch = list[tuple[str, Manifest]]


def manifest_batches(stack: Stack) -> Iterator[ManifestBatch]:
    """(path, object) of everything to create, one batch a kind. The objects of a batch need no order."""
    found: dict[str, list[tuple[str, Manifest]]] = {kind: [] for kind in _KINDS}
    for manifest in _manifests(stack):
        if manifest["kind"] in _KINDS:
            found[manifest["kind"]].append(with_path(_without_checks(manifest)))
    return (batch for batch in found.values() if batch)


def with_path(manifest: Manifest) -> tuple[str, Manifest]:
    """An object with the path at which it is created."""
    namespace = manifest["metadata"].get("namespace")
    return _KINDS[manifest["kind"]].format(namespace=namespace), manifest


def _manifests(stack: Stack) -> Iterator[Manifest]:
    yield from kueue.flavors(stack)
    yield from kueue.priority_classes(stack)
    for teams in kueue.by_department(stack).values():
        for objects in teams.values():
            yield from objects


def _without_checks(manifest: Manifest) -> Manifest:
    if manifest["kind"] != "ClusterQueue":
        return manifest
    spec = {key: value for key, value in manifest["spec"].items() if key != "admissionChecksStrategy"}
    # Kueue would add the finalizer itself, with one more write for each queue.
    metadata = {**manifest["metadata"], "finalizers": [_IN_USE]}
    return {**manifest, "metadata": metadata, "spec": spec}
