"""Labels of pods by which controllers know whose they are, and what a queue has counted of them.

KubeRay gives a pod the labels of its group (`headGroupSpec.labels`) in place of those of its template.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.integration.tenancy.attack import Attack, in_each_template
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.works import cluster_spec, head

_POD_SET: Final = "kueue.x-k8s.io/podset"
_OURS: Final = "muster.dev/workload-uid"
_GAINS: Final = {
    _POD_SET: "GPU pods let start in place of the small ones that the queue counted",
    _OURS: "pods that count as placeholders of another gang",
}
_WORDS: Final = ("labels or annotations that are reserved for controllers",)


def _of_groups(place: str, key: str) -> Iterator[Attack]:
    make, labels = CLUSTERS[place], {key: "other"}
    workers = cluster_spec()
    workers["workerGroupSpecs"][0]["labels"] = labels
    for group, spec in (
        ("headGroupSpec", cluster_spec(headGroupSpec=head(labels=labels))),
        ("workerGroupSpecs[]", workers),
    ):
        yield Attack(
            name=f"label {key} of a group, in {place}.{group}",
            body=make(spec),
            gains=_GAINS[key],
            policy="muster-reserved",
            path=f"{place}.{group}.labels{{{key}}}",
            words=(*_WORDS, f"remove {key}"),
        )


ATTACKS: Final = (
    *(attack for place in CLUSTERS for key in _GAINS for attack in _of_groups(place, key)),
    *(
        attack
        for key in _GAINS
        for attack in in_each_template(
            f"label {key}",
            *("metadata", "labels", key),
            value="other",
            gains=_GAINS[key],
            policy="muster-reserved",
            path=f"metadata.labels{{{key}}}",
            words=(*_WORDS, f"remove {key}"),
        )
    ),
)
