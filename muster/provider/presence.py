"""Which objects of a Bundle are no longer in the cluster.

An engine compares a resource with its state, and a namespace that a person deleted is still in the state.
One metadata listing of each kind, for all Bundles of a run, finds what is missing. What differs in an object
that is there is the business of `comparison.py`, at `pulumi refresh`.
"""

import asyncio
from collections.abc import Iterable

from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import KubeconfigError
from muster.provider.api import Cluster, Deadline, DeadlineError, UnknownKindError
from muster.provider.manifests import Ref

_UNANSWERED = (ApiError, DeadlineError, KubeconfigError, UnreachableError)
# A cluster has many that are not ours, and a Bundle has few: these are read one by one.
_NUMEROUS = frozenset({"ConfigMap", "Secret"})
_SHOWN = 3

Place = tuple[str, str]


class Presence:
    """What one cluster holds, read once. An answer that does not come counts as `nothing is missing`."""

    def __init__(self, cluster: Cluster, *, cancelled: asyncio.Event, seconds: float) -> None:
        self._cluster, self._cancelled, self._seconds = cluster, cancelled, seconds
        self._listings: dict[tuple[str, str], asyncio.Task[frozenset[Place] | None]] = {}

    async def missing(self, refs: Iterable[Ref]) -> list[Ref]:
        """Those that are not in the cluster or are being deleted."""
        wanted = sorted(refs, key=lambda ref: (ref.kind != "Namespace", ref))
        present = await asyncio.gather(*(self._is_present(ref) for ref in wanted))
        return [ref for ref, is_present in zip(wanted, present, strict=True) if not is_present]

    async def _is_present(self, ref: Ref) -> bool:
        if ref.kind in _NUMEROUS:
            return await self._is_found(ref)
        held = await self._listing(ref)
        return held is None or not held.isdisjoint(
            {(ref.namespace, ref.name), (ref.namespace or "default", ref.name)}
        )

    async def _is_found(self, ref: Ref) -> bool:
        try:
            live = await self._cluster.get(ref, self._deadline())
        except _UNANSWERED:
            return True
        return live is not None and not live["metadata"].get("deletionTimestamp")

    async def _listing(self, ref: Ref) -> frozenset[Place] | None:
        kind = ref.api_version, ref.kind
        if kind not in self._listings:
            self._listings[kind] = asyncio.ensure_future(self._list(ref))
        return await self._listings[kind]

    async def _list(self, ref: Ref) -> frozenset[Place] | None:
        try:
            found = await self._cluster.metadata_of_all(ref.api_version, ref.kind, self._deadline())
        except UnknownKindError:
            return frozenset()
        except _UNANSWERED:
            return None
        return frozenset(
            (each.get("namespace", ""), each["name"]) for each in found if not each.get("deletionTimestamp")
        )

    def _deadline(self) -> Deadline:
        return Deadline(self._seconds, cancelled=self._cancelled)


def describe(missing: list[Ref]) -> str:
    """The warning for a Bundle with missing objects."""
    named = ", ".join(str(ref) for ref in missing[:_SHOWN])
    others = f" and {len(missing) - _SHOWN} more objects" if len(missing) > _SHOWN else ""
    return f"no longer in the cluster: {named}{others}. `pulumi up` puts back what is missing"
