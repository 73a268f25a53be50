"""A second ledger, which counts single GPUs second by second and shares no code with the product's.

Each second every GPU is a token. Holders take tokens one by one: first those of their own quota, then one
that a cohort has of its own, then one that another queue of the cohort leaves. Times are whole seconds.
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
            mine = [each for each in holds if each.pool == pool and each.reserved <= at < each.ended]
            nodes = [each for each in supplies if each.pool == pool and each.start <= at < each.end]
            for cause, job in _second(at, pool, mine, nodes, quotas, window):
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
    at: int, pool: str, holds: Sequence[Hold], nodes: Sequence[Supply], quotas: Quotas, window: Window
) -> Iterator[tuple[str, str]]:
    """The cause and the job of each GPU that was bought."""
    if any(gap.start <= at < gap.end for gap in window.gaps):
        yield from (("unknown", "") for node in nodes for _ in range(node.gpus))
        return
    queue_of_nodes = [_node(at, node) for node in nodes]
    ready = [gpu for node in queue_of_nodes for gpu in node if gpu == "ready"]
    is_known = window.nodes_from is not None and window.nodes_from <= at
    if is_known:
        yield from ((gpu, "") for node in queue_of_nodes for gpu in node if gpu != "ready")
    quota = {queue: [queue] * amount for (queue, of), amount in quotas.own.items() if of == pool}
    shared = {root: amount for (root, of), amount in quotas.shared.items() if of == pool}
    within: dict[int, int] = defaultdict(int)
    order = sorted(holds, key=lambda hold: (hold.reserved, hold.job))
    for number, hold in enumerate(order):
        for _ in range(hold.gpus):
            if quota.get(hold.queue):
                quota[hold.queue].pop()
                within[number] += 1
    used = 0
    for number, hold in enumerate(order):
        if hold.admitted is None or hold.admitted > at:
            continue
        for gpu in range(hold.gpus):
            if is_known and not ready:
                break
            if is_known:
                ready.pop()
            used += 1
            yield _cause(hold, gpu < within[number], quota, shared, quotas), hold.job
    if not is_known:
        bought = sum(node.gpus for node in nodes)
        yield from (("unknown", "") for _ in range(bought - used))
        return
    for hold in order:
        if hold.admitted is None or hold.admitted > at:
            for _ in range(min(hold.gpus, len(ready))):
                ready.pop()
                yield "gated", hold.job
    yield from (("idle", "") for _ in ready)


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
    if hold.queue not in quotas.roots:
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
