"""What a side of a replay plays, whoever schedules it: its jobs, and the quotas by which they are counted."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.model.pools import Pool
from muster.model.quotas import is_unlimited
from muster.replay.figures import Played
from muster.replay.playback import Playback

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
