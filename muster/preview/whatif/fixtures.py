"""What of a stack is put onto the stage, and how Kueue is configured there.

Decides that admission checks are left out: all of them would be answered Ready at once, since whether a
cloud has capacity is nobody's to know. And that nothing times out, since nothing runs.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.model import names
from muster.model.stack import Stack
from muster.render import kueue
from muster.render.manifest import Manifest

# The order in which they refer to each other.
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
_NEVER: Final = "8760h"


ManifestBatch = list[tuple[str, Manifest]]


def manifest_batches(stack: Stack) -> Iterator[ManifestBatch]:
    """(path, object) of what has to be there, kind by kind; the objects of one act need no order."""
    found: dict[str, list[tuple[str, Manifest]]] = {kind: [] for kind in _KINDS}
    for manifest in _manifests(stack):
        if manifest["kind"] in _KINDS:
            found[manifest["kind"]].append(with_path(_without_checks(manifest)))
    return (act for act in found.values() if act)


def with_path(manifest: Manifest) -> tuple[str, Manifest]:
    """An object with the path that it is created at."""
    namespace = manifest["metadata"].get("namespace")
    return _KINDS[manifest["kind"]].format(namespace=namespace), manifest


def kueue_configuration(stack: Stack) -> dict[str, Any]:
    """Kueue's own configuration for this stack, without what concerns jobs and pods."""
    ours = kueue.manager_config(stack)
    ours["integrations"] = {"frameworks": ["batch/job"]}
    ours["manageJobsWithoutQueueName"] = False
    ours.pop("managedJobsNamespaceSelector", None)
    # On by default since 0.19, and nothing here ever has a ready pod.
    ours["waitForPodsReady"] = {"timeout": _NEVER, "recoveryTimeout": _NEVER, "blockAdmission": False}
    ours["clientConnection"] = {"qps": 2000, "burst": 4000}
    # A queue counts in its status what it finds at the start. Few workers come to it seldom, and so it writes
    # once what twenty of them have it write six times (6,279 writes of 1,000 queues, and 778 by one).
    concurrency = {**ours["controller"]["groupKindConcurrency"], "ClusterQueue.kueue.x-k8s.io": 2}
    ours["controller"] = {"groupKindConcurrency": concurrency}
    return ours


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
    # Kueue would put it there, with one more write for each.
    metadata = {**manifest["metadata"], "finalizers": [_IN_USE]}
    return {**manifest, "metadata": metadata, "spec": spec}
