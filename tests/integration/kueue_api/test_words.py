"""The words that a stack may write are those that the pinned Kueue takes, no fewer and no more."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from muster.model.kueue import flavor, queue, tree
from muster.render.kueue.queues import QUEUEING
from tests import built
from tests.envtest.process import CRDS

_OURS: Final[Mapping[str, Iterable[str]]] = {
    "ClusterQueue.admissionScope.admissionMode": queue.AdmissionMode,
    "ClusterQueue.concurrentAdmissionPolicy.migration.mode": queue.Migration,
    "ClusterQueue.flavorFungibility.preference": queue.Preference,
    "ClusterQueue.flavorFungibility.whenCanBorrow": queue.Search,
    "ClusterQueue.flavorFungibility.whenCanPreempt": queue.Search,
    "ClusterQueue.preemption.borrowWithinCohort.policy": queue.BorrowPreemption,
    "ClusterQueue.preemption.reclaimWithinCohort": tree.RECLAIM.values(),
    "ClusterQueue.preemption.withinClusterQueue": tree.WITHIN.values(),
    "ClusterQueue.queueingStrategy": QUEUEING.values(),
    "ClusterQueue.stopPolicy": queue.StopPolicy,
    "LocalQueue.stopPolicy": queue.StopPolicy,
    "ProvisioningRequestConfig.podSetMergePolicy": flavor.PodSetMerge,
}
_KINDS: Final = (
    "AdmissionCheck",
    "ClusterQueue",
    "LocalQueue",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
)


def test_a_stack_may_write_the_words_of_the_pinned_kueue() -> None:
    kinds = {
        kind["spec"]["names"]["kind"]: kind["spec"]["versions"]
        for kind in built.programs((), (CRDS,)).kinds(CRDS)
    }
    specs = {
        name: version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
        for name in _KINDS
        for version in kinds[name]
        if version["name"] == "v1beta2"
    }

    theirs = dict(each for name, schema in specs.items() for each in _words(schema, name))

    assert theirs == {place: {str(word) for word in words} for place, words in _OURS.items()}


def _words(schema: dict[str, Any], place: str) -> Iterator[tuple[str, set[str]]]:
    if "enum" in schema:
        yield place, set(schema["enum"])
    for name, below in schema.get("properties", {}).items():
        yield from _words(below, f"{place}.{name}")
    if "items" in schema:
        yield from _words(schema["items"], f"{place}[]")
