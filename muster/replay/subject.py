"""What a side of a replay plays, whoever schedules it: its jobs, and the quotas by which they are counted."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol, Self, TypeVar

from muster.model.pools import Pool
from muster.model.quotas import is_unlimited
from muster.model.stack import Scheduler
from muster.replay.assumptions import AS_RECORDED, Assumptions
from muster.replay.figures import Played
from muster.replay.moment import Moment
from muster.replay.playback import Playback
from muster.replay.provisioning import NodePool
from muster.replay.recording import Job, Recording


class Timed(Protocol):
    @property
    def at(self) -> float | None: ...


E = TypeVar("E", bound=Timed)

NO_TEAM: Final = "whose namespace or team the stack does not have"
NO_QUEUE: Final = "of queues that the stack does not have"
NO_POOL: Final = "of pools that the stack does not have"
NO_RUN: Final = "never ran, so their duration is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(ABC):
    """`quotas`: (queue, flavor) -> GPUs, and `gpus` those of all queues together, in which a quota without a
    bound is the pool. `left_out`: reason -> number of jobs. `notes`: what is assumed of this side, in
    sentences.
    """

    jobs: Sequence[Played]
    quotas: Mapping[tuple[str, str], int]
    gpus: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @abstractmethod
    def play(self, program: Path) -> Playback:
        """What its scheduler decides. UnplayableError where the player would decide otherwise."""

    @abstractmethod
    def until(self, second: int, *, limit: float = 0) -> Self:
        """The same in a play that ends then, or after `limit` seconds of the real clock, 0 for no limit."""

    def arrived(self, entries: Sequence[E], second: int) -> tuple[list[E], float]:
        """Of the entries of the jobs, those that have arrived by then, and how long before the first did."""
        pairs = zip(entries, self.jobs, strict=True)
        kept = [entry for entry, job in pairs if job.arrival <= second]
        return kept, second - min((each.at for each in kept if each.at is not None), default=second)


class Decider(ABC):
    """A scheduler and the queues in which it decides.

    `teams`: what recordings and clusters call a team -> its name in the stack. `runs`: how many futures a
    forecast has by default.
    """

    scheduler: ClassVar[Scheduler]
    runs: ClassVar[int]

    @property
    @abstractmethod
    def teams(self) -> Mapping[str, str]: ...

    @property
    @abstractmethod
    def pools(self) -> Sequence[NodePool]: ...

    @abstractmethod
    def why_unplayable(self, job: Job) -> str:
        """What the queues lack for the job, "" for nothing: a relative clause about jobs."""

    @abstractmethod
    def side(
        self, recording: Recording, assumptions: Assumptions = AS_RECORDED, *, now: Moment | None = None
    ) -> Subject:
        """The recording in these queues. With `now` the play begins at that moment: what runs then goes on,
        and what waits keeps its age.
        """


def quota_of_all(quotas: Mapping[tuple[str, str], int], pools: Sequence[Pool]) -> int:
    """The GPUs of all queues together."""
    by_flavor = {pool.flavor: pool for pool in pools}
    sums: Counter[str] = Counter()
    for (_, flavor), amount in quotas.items():
        pool = by_flavor.get(flavor)
        if pool is None or not is_unlimited(pool, amount):
            sums[flavor] += amount
    for (_, flavor), amount in quotas.items():
        pool = by_flavor.get(flavor)
        if pool is not None and is_unlimited(pool, amount):
            sums[flavor] = max(sums[flavor], int(pool.max_gpus))
    return sums.total()
