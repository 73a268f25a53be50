"""Reads the `kueue:` sections of pools, departments and teams, and `muster:kueue`.

    parse_pool_kueue(section)         -> PoolOptions
    parse_cohort(section)             -> CohortOptions
    parse_queue(section)              -> QueueOptions
    parse_kueue(section)              -> KueueOptions

Kueue's fields are written as in its own API, with maps by name where the API has lists. Not responsible for
which fields fit together (muster/validation/kueue).
"""

from muster.config.kueue.cohorts import parse_cohort
from muster.config.kueue.flavors import parse_pool_kueue
from muster.config.kueue.manager import parse_kueue
from muster.config.kueue.queues import parse_queue

__all__ = ["parse_cohort", "parse_kueue", "parse_pool_kueue", "parse_queue"]
