"""Every version of every object that matters, in the order in which the API server made them.

Watches run in threads and survive an API server that is killed. A test that
asserts "never" asks the record, not the present.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster.kubernetes.errors import ApiError, UnreachableError
from muster.local.demo.cluster import Cluster, Object
from muster.local.demo.events import Snapshot

KINDS: Final = (
    "RayJob",
    "RayCluster",
    "Job",
    "Workload",
    "ProvisioningRequest",
    "PodTemplate",
    "Pod",
    "Node",
)
_PAUSE: Final = 0.5


@dataclass(slots=True)
class Life:
    """One object from its first to its last version; `gone` is the version at which its deletion was seen."""

    kind: str
    versions: list[Object] = field(default_factory=list)
    gone: int | None = None
    gone_at: float | None = None
    caught_up: set[int] = field(default_factory=set)
    """Versions that a list told of after a watch had ended: others may have come before, unseen."""

    @property
    def last(self) -> Object:
        return self.versions[-1]

    @property
    def name(self) -> str:
        return str(self.last["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.last["metadata"]["uid"])

    @property
    def born(self) -> int:
        """The version at which it was first seen."""
        return version(self.versions[0])

    def first(self, holds: Callable[[Object], bool]) -> Object | None:
        """The first version that has the property."""
        return next((one for one in self.versions if holds(one)), None)

    def since(self, holds: Callable[[Object], bool]) -> int | None:
        found = self.first(holds)
        return version(found) if found is not None else None


def version(found: Object) -> int:
    """etcd's revision: one order over all objects of a cluster, finer than any time stamp."""
    return int(found["metadata"]["resourceVersion"])


class Recorder:
    """Start it once; `mark` begins a new chapter, and `lives` tells of objects born in it."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._lives: dict[tuple[str, str], Life] = {}
        self._changed = threading.Condition()
        self._mark = 0
        self._stopped = threading.Event()
        self._synced: set[str] = set()

    def start(self) -> None:
        for kind in KINDS:
            threading.Thread(target=self._follow, args=(kind,), daemon=True, name=f"watch-{kind}").start()
        self.wait(lambda: self._synced == set(KINDS), seconds=60)

    def stop(self) -> None:
        self._stopped.set()

    def mark(self) -> None:
        with self._changed:
            self._mark = max((version(life.last) for life in self._lives.values()), default=0)

    def lives(self, kind: str, *, ever: bool = False) -> list[Life]:
        """Objects that were born since the mark, or ever; the dead included, the oldest first."""
        since = 0 if ever else self._mark
        with self._changed:
            found = [life for (of, _), life in self._lives.items() if of == kind and life.born > since]
        return sorted(found, key=lambda life: life.born)

    def now(self, namespace: str | None = None) -> Snapshot:
        """What exists, of all times; nodes always, the rest of one namespace or of all."""
        with self._changed:
            alive = [life for life in self._lives.values() if life.gone is None]
        return Snapshot(
            {
                kind: [
                    life.last
                    for life in alive
                    if life.kind == kind
                    and namespace in (None, life.last["metadata"].get("namespace", namespace))
                ]
                for kind in KINDS
            }
        )

    def wait(self, reached: Callable[[], object], *, seconds: float) -> bool:
        """Whether it came true in time; judged anew at each change."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not reached():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 1.0))
        return True

    def knows(self, kind: str, found: Object) -> bool:
        """Whether it has this version of the object, or a later one, or its end."""
        with self._changed:
            life = self._lives.get((kind, found["metadata"]["uid"]))
        return life is not None and (life.gone is not None or version(life.last) >= version(found))

    def note(self, kind: str, change: str, found: Object) -> None:
        """One change, as a watch or a list (`LISTED`) tells it."""
        with self._changed:
            life = self._lives.setdefault((kind, found["metadata"]["uid"]), Life(kind))
            if change == "DELETED":
                life.versions = life.versions or [found]
                life.gone, life.gone_at = version(found), time.time()
            elif not life.versions or version(found) > version(life.last):
                life.versions.append(found)
                if change == "LISTED":
                    life.caught_up.add(version(found))
            self._changed.notify_all()

    # -- threads -------------------------------------------------------------------------------

    def _follow(self, kind: str) -> None:
        cluster = Cluster(self._kubeconfig)  # one for each thread: TLS connections are not shared
        while not self._stopped.is_set():
            try:
                for change, found in self._changes(cluster, kind):
                    if self._stopped.is_set():
                        return
                    if change == "ERROR":
                        break
                    self.note(kind, change, found)
            except (ApiError, UnreachableError, ValueError, KeyError):
                pass  # the API server is away, or the version is too old: list again
            time.sleep(_PAUSE)

    def _changes(self, cluster: Cluster, kind: str) -> Iterator[tuple[str, Object]]:
        found, since = cluster.listed(kind)
        present = {one["metadata"]["uid"] for one in found}
        for one in found:
            yield "LISTED", one
        served = since != "0"  # 0 is the answer while the kind does not exist, or not yet again
        with self._changed:
            missed = [
                life
                for (of, uid), life in self._lives.items()
                if of == kind and life.gone is None and uid not in present
            ]
            for life in missed if served else ():
                life.gone, life.gone_at = int(since), time.time()
            self._synced.add(kind)
            self._changed.notify_all()
        if served:
            yield from cluster.watch(kind, since=since)
