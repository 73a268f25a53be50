"""A recording: the jobs of a cluster over a window of time. Plain data, without I/O.

Times are seconds since the epoch (UTC), to the millisecond where the recorder saw it happen. Kubernetes keeps
whole seconds. Amounts are whole numbers of base units: `cpu` in millicores, memory in bytes, devices by
count.
"""

import hashlib
import hmac
import resource
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from muster.errors import MusterError
from muster.live.snapshot.workloads import Amounts, Term, Toleration
from muster.model import names
from muster.model.stack import Scheduler

# The error of a recording, or of a list to import, that cannot be used.


class RecordingError(MusterError):
    """The message names the file and, where there is one, the line."""


# Lets a program that needs more memory than its container has fail with an error.
# The kernel kills a container that exceeds its limit, and the container's log does not say why.


@contextmanager
def limited_memory(bytes: int) -> Iterator[None]:
    """Within the block, an allocation beyond this raises MemoryError. Programs that are started in it have
    as much, each for itself.
    """
    # RLIMIT_AS would count address space as well that is only reserved.
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


# Ids of recorded jobs: keyed hashes, so that a recording does not name objects of the cluster.
# The key lies beside the recording and is not part of it: a recorder needs it to go on with its file.

_ENDING: Final = ".key"
_BYTES: Final = 32
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Ids:
    key: bytes = field(repr=False)

    @classmethod
    def create(cls, recording: Path) -> Self:
        """A new key, in a file beside the recording that only its owner can read. RecordingError when
        there is a key already: older parts of the recording can be continued with no other.
        """
        file, key = _file(recording), secrets.token_bytes(_BYTES)
        try:
            file.touch(mode=0o600, exist_ok=False)
            file.write_text(key.hex() + "\n", encoding="ascii")
        except FileExistsError:
            raise RecordingError(
                f"{recording}: the file is missing, but its key {file.name} exists.",
                fix="put the recording back to continue it, remove the key, or record into another file.",
            ) from None
        except OSError as error:
            raise RecordingError(
                f"{file}: cannot be written: {error.strerror}.", fix="name a file in a folder that exists."
            ) from None
        return cls(key)

    @staticmethod
    def discard(recording: Path) -> None:
        """Remove the key of a recording that could not be begun."""
        _file(recording).unlink(missing_ok=True)

    @classmethod
    def load(cls, recording: Path) -> Self:
        """The key of a recording that is continued; RecordingError without it."""
        file = _file(recording)
        try:
            return cls(bytes.fromhex(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            raise RecordingError(
                f"{file}: the key of {recording.name} is missing or unreadable.",
                fix="put the key beside the recording, or record into another file.",
            ) from None

    def of(self, uid: str) -> str:
        return hmac.new(self.key, uid.encode(), hashlib.sha256).hexdigest()[:_DIGITS]


def tie(uid: str) -> int:
    """The first 16 bits of a UID: Kueue compares UIDs where jobs were created in the same second."""
    try:
        return int(uid[:4], 16)
    except ValueError:
        return 0


def _file(recording: Path) -> Path:
    return recording.with_name(recording.name + _ENDING)


class End(StrEnum):
    """Why a run stopped holding quota, or a job left."""

    FINISHED = "finished"
    FAILED = "failed"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods. `requests` are those of one pod.

    `pools` are the pools or flavors that it may use, as the source names them; empty where it does not name
    any. `node_selector`, `tolerations` and `terms` decide further; an imported recording has none.
    """

    name: str
    count: int
    requests: Amounts
    min_count: int | None = None
    pools: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One time that a job held quota.

    `reserved`: quota was reserved. `admitted`: its pods could start; None where that never happened.
    `evicted`: the scheduler asked for the quota back. `ended`: the quota was free again; None while it runs.
    `reason` is the scheduler's own word, such as `InCohortReclamation` or `PodsReadyTimeout`. `by` is the id
    of the job that preempted it, "" where that is unknown. `flavors` are what it was given, and `counts` the
    pods of each pod set in order, where they are fewer than asked for. `device_flavors`: of each pod set in
    order that of its devices, "" for none; empty where `flavors` are fewer than two. `idle`: since when the
    controller has seen its GPUs do nothing, to the end of the run.
    """

    reserved: float
    admitted: float | None = None
    evicted: float | None = None
    ended: float | None = None
    end: End | None = None
    reason: str = ""
    by: str = ""
    flavors: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    device_flavors: tuple[str, ...] = ()
    idle: float | None = None

    @property
    def was_stopped_idle(self) -> bool:
        return self.end is End.EVICTED and self.idle is not None

    @property
    def seconds(self) -> float | None:
        """How long its pods could run; None while it runs, or where it was never admitted."""
        if self.admitted is None or self.ended is None:
            return None
        return max((self.evicted or self.ended) - self.admitted, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One Workload of Kueue, PodGroup of KAI, or line of an imported list.

    `created` is the time that its object has: Kueue orders jobs by it. `arrived` is when the recorder saw it
    arrive, None where nothing watched. `team` is its namespace with Kueue, its Queue with KAI. `queue` is the
    LocalQueue that it names and `cluster_queue` the ClusterQueue that it was last given quota in, "" where
    unknown. `tie` orders jobs that were created in the same second: Kueue compares UIDs then, and these are
    the first 16 bits of the UID. `left` is when it finished, failed or was deleted; None while it is there.
    `name` is "" unless names were asked for. `user` is who submitted it, which imported lists alone may tell.
    """

    id: str
    team: str
    created: float
    pod_sets: tuple[PodSet, ...]
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    priority_class: str = ""
    tie: int = 0
    name: str = ""
    user: str = ""
    runs: tuple[Run, ...] = ()
    arrived: float | None = None
    left: float | None = None
    outcome: End | None = None

    @property
    def key(self) -> str:
        """Of this job alone: ids of a cluster's jobs are unique in their namespace."""
        return f"{self.team}/{self.id}"

    @property
    def arrival(self) -> float:
        return self.created if self.arrived is None else self.arrived

    @property
    def wait(self) -> float | None:
        """Seconds from its arrival until it was admitted first; None where that never happened."""
        first = next((run.admitted for run in self.runs if run.admitted is not None), None)
        return None if first is None else max(first - self.arrival, 0.0)

    @property
    def devices(self) -> int:
        """GPUs and TPUs of all its pods."""
        return sum(
            pods.count * pods.requests.get(resource, 0)
            for pods in self.pod_sets
            for resource in names.DEVICE_RESOURCES
        )


@dataclass(frozen=True, slots=True)
class Usable:
    """From when on how many GPUs of a node could be used: the allocatable ones, 0 while it is not Ready."""

    at: float
    gpus: int


@dataclass(frozen=True, slots=True)
class Booked:
    """From when on a node is kept for the gang that it was bought for, by the id of its job; "" for none."""

    at: float
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with GPUs or TPUs. `gpus` is the most that it ever had, 0 while it has shown none. `machine` is
    the cloud's word and `pool` that of the stack, "" where a label is missing. `booked` is empty where
    nothing has said whom it was bought for. `left`: when its object was deleted; None while it is there.
    """

    id: str
    pool: str
    machine: str
    created: float
    gpus: int = 0
    usable: tuple[Usable, ...] = ()
    booked: tuple[Booked, ...] = ()
    left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`source` is a word on where it comes from, such as `cluster`, `csv` or `sacct`. `left_out` says in
    sentences what the recording cannot tell. `start` and `end` bound the window. `nodes_from`: since when
    nodes are recorded; None for never.
    """

    scheduler: Scheduler
    start: float
    end: float
    source: str
    left_out: tuple[str, ...] = ()
    has_names: bool = False
    nodes_from: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing was recorded."""

    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """`jobs` are sorted by creation, then tie and id. `warnings`: what was wrong with the file."""

    header: Header
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...] = ()
    gaps: tuple[Gap, ...] = ()
    warnings: tuple[str, ...] = ()


# How the runs of a job end. Pure.


def deleted(job: Job, *, at: float) -> Job:
    """A job whose object is gone without having finished."""
    return replace(
        job, left=max(at, job.created), outcome=End.DELETED, runs=close(job.runs, at=at, end=End.DELETED)
    )


def close(runs: tuple[Run, ...], *, at: float | None, end: End | None, reason: str = "") -> tuple[Run, ...]:
    """The runs with the last one ended, where it had not."""
    if not runs or runs[-1].ended is not None or at is None:
        return runs
    last = runs[-1]
    # What the scheduler took away stays taken away: its word is kept.
    is_taken = last.end is not None
    ended = replace(
        last,
        ended=max(at, last.reserved),
        end=last.end if is_taken else end,
        reason=last.reason if is_taken else reason,
    )
    return (*runs[:-1], ended)
