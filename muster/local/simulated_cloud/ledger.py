"""The bill: node-seconds and money for each pool, in the cloud's time, kept in a ConfigMap.

A lease is entered once, when its node goes. The uids of the last leases are kept beside the sums, so that a
restart between entry and deletion does not charge twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.local.simulated_cloud.objects import Node
from muster.local.simulated_cloud.offering import Offering

_REMEMBERED: Final = 200
_HOUR: Final = 3600.0
_LEDGER_KEY: Final = "ledger"


@dataclass(slots=True)
class Ledger:
    """Node-seconds of leases that are over, by pool."""

    closed: dict[str, float] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)

    @staticmethod
    def read(data: Mapping[str, str]) -> Ledger:
        """What an earlier process wrote; an unreadable ledger starts empty."""
        try:
            content = json.loads(data.get(_LEDGER_KEY, "{}"))
            closed = {str(pool): float(seconds) for pool, seconds in content.get("closed", {}).items()}
            return Ledger(closed, [str(uid) for uid in content.get("recent", [])][-_REMEMBERED:])
        except (ValueError, AttributeError, TypeError):
            return Ledger()

    def close(self, node: Node, *, now: float, scale: float) -> bool:
        """Enter the node's lease; False if it was entered already."""
        if node.uid in self.recent:
            return False
        pool = node.pool or ""
        self.closed[pool] = self.closed.get(pool, 0.0) + max(0.0, now - node.created) * scale
        self.recent = [*self.recent, node.uid][-_REMEMBERED:]
        return True

    def write(
        self,
        offering: Offering,
        nodes: Iterable[Node],
        *,
        now: float,
        stock: Mapping[str, int],
        waiting: Mapping[str, int],
    ) -> dict[str, str]:
        """The ConfigMap's data: one JSON line a pool for people, and the ledger itself."""
        scale = offering.times.scale
        live = [node for node in nodes if node.vm is not None and node.uid not in self.recent]
        lines: dict[str, str] = {}
        for name, pool in offering.pools.items():
            own = [node for node in live if node.pool == name]
            seconds = self.closed.get(name, 0.0) + sum(max(0.0, now - node.created) * scale for node in own)
            line: dict[str, Any] = {
                "nodes": len(own),
                "stock": stock.get(name, pool.stock),
                "waiting": waiting.get(name, 0),
                "nodeSeconds": round(seconds, 1),
                "cost": round(seconds / _HOUR * pool.price_per_hour, 4),
                "currency": offering.currency,
            }
            lines[name] = json.dumps(line)
        content = {
            "closed": {pool: round(value, 3) for pool, value in self.closed.items()},
            "recent": self.recent,
        }
        return {**lines, _LEDGER_KEY: json.dumps(content)}
