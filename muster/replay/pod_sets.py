"""Converts the pods of a cluster to those of a recording. Pure."""

from dataclasses import replace
from typing import Final

from muster.live.snapshot import PodSet as LivePodSet
from muster.model import names
from muster.replay.recording import PodSet

_HOST: Final = "kubernetes.io/hostname"


def to_pod_set(found: LivePodSet, index: int, *, with_names: bool) -> PodSet:
    """`index`: its place in the job, which replaces its name. The worker groups of a Ray cluster have names
    of the user's.
    """
    pods = found if with_names else _without_host(found)
    pool = pods.node_selector.get(names.POOL_LABEL)
    return PodSet(
        name=pods.name if with_names else f"p{index}",
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        pools=(pool,) if pool else (),
        node_selector=pods.node_selector,
        tolerations=pods.tolerations,
        terms=pods.terms,
    )


def _without_host(found: LivePodSet) -> LivePodSet:
    """Without the names of nodes. Kueue chooses no flavor by them: it reads labels that flavors have and no
    others. Where nothing is left of one term, every flavor matches (0.19, pkg/scheduler/flavorassigner,
    flavorSelector).
    """
    terms = [
        replace(term, expressions=tuple(each for each in term.expressions if each.key != _HOST))
        for term in found.terms
    ]
    return replace(
        found,
        node_selector={key: value for key, value in found.node_selector.items() if key != _HOST},
        terms=tuple(terms) if all(term.expressions for term in terms) else (),
    )
