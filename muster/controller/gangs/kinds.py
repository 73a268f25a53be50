"""Kinds that our caches wait for.

Decides what is told of a cluster that lacks one: gangs would wait for it in vain, and nobody reads the log of
a process that is merely not ready, or whose creates fail. Nothing is judged before every cache has been read
or is known to be missing, so that a restart says nothing that it takes back a moment later. Leaves what is
cached to the manager, and when a kind counts as missing to the informer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.controller.kube.resource import Resource
from muster.controller.runtime.controller import RequeueAfter
from muster.controller.runtime.informer import unserved

REASON: Final = "KindsMissing"
SHORT_RECHECK: Final = RequeueAfter(0.2)
"""While caches are being read for the first time; no news of ours tells when they are."""
MISSING_RECHECK: Final = RequeueAfter(5.0)
"""While a kind is missing."""
RECHECK_INTERVAL = RequeueAfter(30.0)
"""While none is; no news of ours tells when one goes."""


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
        """To be asked with the verdict, not after it is told: the kind may be there by then."""
        return MISSING_RECHECK if self.missing() else RECHECK_INTERVAL
