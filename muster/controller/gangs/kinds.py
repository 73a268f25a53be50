"""Kinds that our caches need and the API server does not serve.

Gangs would wait for such a kind forever, so conditions report it. Nothing is reported before every cache has
been read or its kind is known to be missing: a restart must not report what it retracts a moment later. The
manager decides what is cached; the informer decides when a kind counts as missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.controller.kube.resource import Resource
from muster.controller.runtime.controller import RequeueAfter
from muster.controller.runtime.informer import unserved

REASON: Final = "KindsMissing"
SHORT_RECHECK: Final = RequeueAfter(0.2)
"""While caches are being read for the first time; no event shows when they have been."""
MISSING_RECHECK: Final = RequeueAfter(5.0)
"""While a kind is missing."""
RECHECK_INTERVAL = RequeueAfter(30.0)
"""While none is; no event shows when one goes."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """`missing`: kinds that the API server does not know; `are_known`: every other cache has been read."""

    missing: Callable[[], Sequence[Resource[Any]]]
    are_known: Callable[[], bool]

    @property
    def message(self) -> str:
        """What is missing, and the fix; empty where nothing is."""
        return "; ".join(unserved(kind) for kind in self.missing())

    def recheck_interval(self) -> RequeueAfter:
        """Read together with the verdict, not after the write: the kind may be served by then."""
        return MISSING_RECHECK if self.missing() else RECHECK_INTERVAL
