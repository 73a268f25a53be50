"""What the simulated cloud of a local cluster has in stock of the pools that a job waits for.

Another cluster has no such cloud, and nothing is said of it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import yaml

from muster.bounded_yaml import load_all
from muster.kubernetes.client import Client
from muster.live.fields import items, mapping, text
from muster.live.why.pods import HIDDEN
from muster.local.simulated_cloud import names
from muster.model.quantities import many
from muster.printable import sanitize_line

_CONFIGS: Final = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps"


def fetch_stock(api: Client, pools: Collection[str], messages: str) -> tuple[str, ...]:
    """A line for each offered pool that is one of `pools`, or that the messages name."""
    offered = _data(api, names.POOLS_CONFIG, names.POOLS_KEY)
    changed = _data(api, names.FAULTS_CONFIG, names.CAPACITY_KEY) if offered else {}
    return tuple(
        f"the simulated cloud has {many(stock, 'node')} of {name} in stock; "
        f"`muster local capacity {name} NODES` changes it"
        for name, stock in _stock(offered, changed)
        if name in pools or re.search(rf"\b{re.escape(name)}\b", messages)
    )


def _stock(offered: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for pool in items(offered, "pools"):
        name = text(pool, "name")
        stock = changed.get(name, pool.get("stock"))
        if isinstance(stock, int) and pool.get("enabled", True):
            yield sanitize_line(name), stock


def _data(api: Client, config: str, key: str) -> Mapping[str, Any]:
    found = mapping(api.find(f"{_CONFIGS}/{config}", absent=HIDDEN))
    try:
        return mapping(next(load_all(text(found, "data", key)), {}))
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
