"""A second ledger, which counts single GPUs second by second and shares no code with the product's.

Each second every GPU is a token with the id of the gang that its node was bought for. A gang takes the tokens
with its id, whether it runs or waits. One that was admitted without as many takes of the others as well, and
never one that another gang waits for or runs on. Of quota it takes one by one: first its queue's own, then
one that a cohort has of its own, then one that another queue of the cohort leaves. Times are whole seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from muster.usage.ledger import Hold, Quotas, Supply, Window

_DAY: Final = 86_400
Key = tuple[int, str, str, str]
"""The first second of the day, the pool, the cause and the job."""


def count(
    holds: Sequence[Hold], supplies: Sequence[Supply], quotas: Quotas, window: Window
) -> dict[Key, float]:
    """GPU-hours."""
    seconds: Counter[Key] = Counter()
    pools = {each.pool for each in holds} | {each.pool for each in supplies}
    for at in range(int(window.start), int(window.end)):
        for pool in pools:
            now = [each for each in holds if each.reserved <= at < each.ended]
            mine = [each for each in now if each.pool == pool]
            strays = sum(each.gpus for each in now if each.pool != pool and pool in each.pools)
            nodes = [each for each in supplies if each.pool == pool and each.start <= at < each.end]
            whole = {id(each) for each in mine if _is_whole(each, supplies, window)}
            for cause, job in _second(at, pool, mine, whole, strays, nodes, quotas, window):
                seconds[at - at % _DAY, pool, cause, job] += 1
    return {key: found / 3600 for key, found in seconds.items()}


def cost(supplies: Sequence[Supply], window: Window, hourly: dict[str, float]) -> float:
    """What the nodes cost in the window, at the price of a node's hour."""
    return sum(
        sum(window.start <= at < window.end for at in range(int(each.start), int(each.end)))
        * hourly[each.pool]
        / 3600
        for each in supplies
    )


def _second(
    at: int,
    pool: str,
    holds: Sequence[Hold],
    whole: set[int],
    strays: int,
    nodes: Sequence[Supply],
    quotas: Quotas,
    window: Window,
) -> Iterator[tuple[str, str]]:
    """The cause and the job of each GPU that was bought. `strays`: those of jobs that may be elsewhere."""
    if any(gap.start <= at < gap.end for gap in window.gaps):
        yield from (("unknown", "") for node in nodes for _ in range(node.gpus))
        return
    states = [(gpu, _buyer(at, node)) for node in nodes for gpu in _node(at, node)]
    # Those of which the buyer is not known are taken last.
    ready = sorted((buyer for gpu, buyer in states if gpu == "ready"), key=lambda buyer: buyer is None)
    is_known = window.nodes_from is not None and window.nodes_from <= at
    if is_known:
        yield from ((gpu, "") for gpu, _ in states if gpu != "ready")
    quota = {queue: [queue] * amount for (queue, of), amount in quotas.own.items() if of == pool}
    shared = {root: amount for (root, of), amount in quotas.shared.items() if of == pool}
    within: dict[int, int] = defaultdict(int)
    order = sorted(holds, key=lambda hold: (hold.reserved, hold.job))
    for number, hold in enumerate(order):
        for _ in range(hold.gpus):
            if quota.get(hold.queue):
                quota[hold.queue].pop()
                within[number] += 1
    taken: list[int] = []
    for hold in order:
        mine = min(hold.gpus, ready.count(hold.id)) if is_known and hold.id else 0
        taken.append(mine)
        for _ in range(mine):
            ready.remove(hold.id)
    used = unplaced = 0
    for number, hold in enumerate(order):
        if hold.admitted is None or hold.admitted > at:
            unplaced += 0 if taken[number] else hold.gpus
            yield from (("gated", hold.job) for _ in range(taken[number]))
            continue
        for gpu in range(hold.gpus):
            if is_known and gpu >= taken[number]:
                if not ready or id(hold) in whole:
                    break
                ready.pop(0)
            used += 1
            is_idle = hold.idle is not None and hold.idle <= at
            cause = "idle" if is_idle else _cause(hold, gpu < within[number], quota, shared, quotas)
            yield cause, hold.job
    if not is_known:
        bought = sum(node.gpus for node in nodes)
        yield from (("unknown", "") for _ in range(bought - used))
        return
    for buyer in reversed(ready):
        if buyer is None and unplaced:
            unplaced -= 1
            yield "unknown", ""
        elif strays:
            strays -= 1
            yield "unknown", ""
        else:
            yield "idle", ""


def _is_whole(hold: Hold, supplies: Sequence[Supply], window: Window) -> bool:
    """All its GPUs were there, bought for it, when it was admitted."""
    if hold.admitted is None or not hold.id:
        return False
    at = int(max(hold.admitted, hold.reserved, window.start))
    nodes = [each for each in supplies if each.pool == hold.pool and each.start <= at < each.end]
    own = [node for node in nodes if _buyer(at, node) == hold.id]
    return sum(gpu == "ready" for node in own for gpu in _node(at, node)) >= hold.gpus


def _buyer(at: int, node: Supply) -> str | None:
    return next((job for since, job in reversed(node.booked) if since <= at), None)


def _node(at: int, node: Supply) -> list[str]:
    """What each of its GPUs is now."""
    reached = [gpus for since, gpus in node.usable if since <= at]
    if not any(reached):
        return ["booting"] * node.gpus
    ready = min(reached[-1], node.gpus)
    return ["ready"] * ready + ["broken"] * (node.gpus - ready)


def _cause(
    hold: Hold, is_own: bool, quota: dict[str, list[str]], shared: dict[str, int], quotas: Quotas
) -> str:
    if hold.is_lost:
        return "lost"
    if hold.queue not in quotas.roots or hold.pool == "":
        return "unknown"
    if is_own:
        return "guaranteed"
    root = quotas.roots[hold.queue]
    if shared.get(root, 0):
        shared[root] -= 1
        return "borrowed"
    for queue, left in quota.items():
        if left and quotas.roots[queue] == root:
            left.pop()
            return "lent"
    return "borrowed"
