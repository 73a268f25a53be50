"""Cohort: what a department may say to Kueue."""

from dataclasses import dataclass, field

from muster.model.kueue.groups import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortOptions:
    """A department's `kueue:` section. `name` is the Cohort's, the department's when None.

    With `exists=False` (`cohort: none`) there is no Cohort: the teams share nothing with anybody, as
    ClusterQueues that stand alone.
    """

    name: str | None = field(default=None, metadata={"key": "cohort"})
    exists: bool = field(default=True, metadata={"key": "cohort"})
    resource_groups: tuple[Group, ...] = ()
