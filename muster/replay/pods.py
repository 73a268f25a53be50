"""The pods of a recorded job as they would be submitted now. Pure."""

from collections.abc import Iterator, Sequence

from muster.live.snapshot import Expression, PodSet, Term, Toleration
from muster.model import names
from muster.model.pools import Pool
from muster.replay.recording import PodSet as RecordedPods


def to_pods(pods: RecordedPods, pools: Sequence[Pool]) -> PodSet:
    """A list that names pools gets the selector of these pools, and whatever their taints ask for. Pods with
    GPUs of no pool tolerate those of every pool, as admission fills in, and pods without GPUs of none.
    """
    known = _known(pods, pools)
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


def _known(pods: RecordedPods, pools: Sequence[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.name in pods.pools or pool.flavor in pods.pools]


def has_pool(pods: RecordedPods, pools: Sequence[Pool]) -> bool:
    """The scheduler judges a selector of the job's own; a list has names alone."""
    return bool(pods.node_selector or pods.terms or not pods.pools or _known(pods, pools))


def _pool_terms(pools: Sequence[Pool]) -> tuple[Term, ...]:
    if not pools:
        return ()
    return (Term((Expression(names.POOL_LABEL, "In", tuple(pool.name for pool in pools)),)),)


def _tolerations(pools: Sequence[Pool]) -> Iterator[Toleration]:
    for taint in sorted({pool.device for pool in pools if pool.is_gpu}):
        yield Toleration(taint, "Exists", "", "")
