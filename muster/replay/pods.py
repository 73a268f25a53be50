"""Pods of a recorded job as they would be submitted now, and pods of a cluster as they are recorded. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster.live.snapshot import Expression, PodSet, Term, Toleration
from muster.model import names
from muster.model.pools import Pool
from muster.replay.recording import PodSet as RecordedPods


def to_pods(pods: RecordedPods, pools: Sequence[Pool]) -> PodSet:
    """A list that names pools gets the selector of these pools, and whatever their taints ask for. Pods with
    GPUs of no pool tolerate those of every pool, as admission fills in, and pods without GPUs of none.
    """
    known = _named_pools(pods, pools)
    terms, tolerations = pods.terms, pods.tolerations
    if not (pods.node_selector or terms):
        terms = _pool_terms(known)
        asks = any(pods.requests.get(each) for each in names.DEVICE_RESOURCES)
        tolerations = tolerations or tuple(_tolerations(known or (pools if asks else ())))
    return PodSet(
        name=pods.name,
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        node_selector=pods.node_selector,
        tolerations=tolerations,
        terms=terms,
    )


def _named_pools(pods: RecordedPods, pools: Sequence[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.name in pods.pools or pool.flavor in pods.pools]


def has_pool(pods: RecordedPods, pools: Sequence[Pool]) -> bool:
    """The scheduler judges a selector of the job's own; a list has names alone."""
    return bool(pods.node_selector or pods.terms or not pods.pools or _named_pools(pods, pools))


def _pool_terms(pools: Sequence[Pool]) -> tuple[Term, ...]:
    if not pools:
        return ()
    return (Term((Expression(names.POOL_LABEL, "In", tuple(pool.name for pool in pools)),)),)


def _tolerations(pools: Sequence[Pool]) -> Iterator[Toleration]:
    for taint in sorted({pool.device for pool in pools if pool.is_gpu}):
        yield Toleration(taint, "Exists", "", "")


# Converts the pods of a cluster to those of a recording. Pure.

_HOST: Final = "kubernetes.io/hostname"


def to_pod_set(found: PodSet, index: int, *, with_names: bool) -> RecordedPods:
    """`index`: its place in the job, which replaces its name. The worker groups of a Ray cluster have names
    of the user's.
    """
    pods = found if with_names else _without_host(found)
    pool = pods.node_selector.get(names.POOL_LABEL)
    return RecordedPods(
        name=pods.name if with_names else f"p{index}",
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        pools=(pool,) if pool else (),
        node_selector=pods.node_selector,
        tolerations=pods.tolerations,
        terms=pods.terms,
    )


def _without_host(found: PodSet) -> PodSet:
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
