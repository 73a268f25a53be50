"""Reads the `kueue:` sections of pools, departments and teams, and `muster:kueue`.

    read_pool_kueue(section)         -> PoolOptions
    read_cohort(section)             -> CohortOptions
    read_queue(section)              -> QueueOptions
    read_kueue(section)              -> KueueOptions

Kueue's fields are written as in its own API, with maps by name where the API has lists. Not responsible for
which fields fit together (muster/validation/kueue).
"""

from muster.config.kueue.cohorts import read_cohort
from muster.config.kueue.flavors import read_pool_kueue
from muster.config.kueue.manager import read_kueue
from muster.config.kueue.queues import read_queue

__all__ = ["read_cohort", "read_kueue", "read_pool_kueue", "read_queue"]
