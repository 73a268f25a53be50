"""Cohort: the `kueue:` section of a department."""

from dataclasses import dataclass, field
from typing import Any

from muster.model.keys import declared
from muster.model.kueue.groups import Group
from muster.model.section import Section

_NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortOptions:
    """A department's `kueue:` section. `name` is the Cohort's, the department's when None.

    With `exists=False` (`cohort: none`) there is no Cohort, and the teams share nothing: their ClusterQueues
    have no cohort.
    """

    name: str | None = declared(
        "The name of the Cohort; `none` for teams that share nothing.",
        None,
        key="cohort",
        default_text="the department's name",
        example="all",
    )
    exists: bool = field(default=True, metadata={"key": "cohort"})
    resource_groups: tuple[Group, ...] = declared("", (), definition="resourceGroups")

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        exists = values["name"] != _NONE
        return {**values, "name": values["name"] if exists else None, "exists": exists}
