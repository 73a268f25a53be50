"""The whole Workloads that are about to request capacity, as the watch delivered them.

The caches keep only what decisions need of a Workload; its request needs the whole template once, moments
after the watch has delivered it. What is not here (a gang from before our start, one evicted from this cache)
is read live.

That call is no safeguard: it reads the Workload's uid, not whether the quota is still held; the executor
confirms that where another replica may have written. Otherwise a request is guarded the same with and without
it: its name follows from uid, check, reservation and shape, so there is at most one; its templates are owned
by that uid, so they are deleted with the Workload, and view.orphans finds what garbage collection does not;
and losing the quota deletes what was requested with it.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from muster.controller.kube import decoding
from muster.controller.kueue.objects import WholeWorkload, Workload

_MAX_BYTES: Final = 8 * 2**20
"""Bytes that are kept at most: a thousand usual Workloads, or five of the largest that etcd takes."""

_WHOLE: Final = msgspec.json.Decoder(WholeWorkload)


class PendingWorkloads:
    """`on_event` listens to a watch of Workloads."""

    def __init__(self, *, max_bytes: int = _MAX_BYTES) -> None:
        self._held: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._left = max_bytes

    def on_event(self, workload: Workload, body: msgspec.Raw) -> None:
        """`body`: the same Workload as it came."""
        uid, generation = workload.metadata.uid, workload.metadata.generation
        held = self._held.get(uid)
        if not _is_pending(workload):
            self._drop(uid)
        elif held is None or held[0] != generation:
            self._drop(uid)
            self._keep(uid, generation, bytes(body))

    def whole(self, workload: Workload) -> WholeWorkload | None:
        """The whole of this very spec: the API server counts `generation` up with each change of it."""
        held = self._held.get(workload.metadata.uid)
        if held is None or held[0] != workload.metadata.generation:
            return None
        return decoding.decode(_WHOLE, held[1])

    def _keep(self, uid: str, generation: int, body: bytes) -> None:
        self._held[uid] = generation, body
        self._left -= len(body)
        while self._left < 0:
            self._drop(next(iter(self._held)))

    def _drop(self, uid: str) -> None:
        if held := self._held.pop(uid, None):
            self._left += len(held[1])


def _is_pending(workload: Workload) -> bool:
    if workload.metadata.deletion_timestamp is not None:
        return False
    status = workload.status
    return status.holds("QuotaReserved") and not status.holds("Admitted") and not status.holds("Finished")
