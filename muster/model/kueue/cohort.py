"""Cohort: the `kueue:` section of a department."""

from dataclasses import dataclass, field

from muster.model.kueue.groups import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortOptions:
    """A department's `kueue:` section. `name` is the Cohort's, the department's when None.

    With `exists=False` (`cohort: none`) there is no Cohort, and the teams share nothing: their ClusterQueues
    have no cohort.
    """

    name: str | None = field(default=None, metadata={"key": "cohort"})
    exists: bool = field(default=True, metadata={"key": "cohort"})
    resource_groups: tuple[Group, ...] = ()
