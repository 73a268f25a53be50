"""A cache that has been read, without an API server behind it."""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from muster.controller.kube.client import Client
from muster.controller.kube.resource import Resource, T
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics

# Nobody reads them, and making them anew for every cache took a third of the tests of gangs.
_METRICS: Final = Metrics()


def cached(
    resource: Resource[T], items: Iterable[T], **indexes: Callable[[Any], Iterable[Any]]
) -> Informer[T]:
    """`indexes`: as Manager.informer takes them, by name."""
    made = Informer(cast(Client, None), resource, metrics=_METRICS, indexes=indexes)
    made.store.replace(list(items), unreadable={}, version="", new_history=False)
    return made
