"""Reads a department's `kueue:` section."""

from typing import Final

from muster.config.kueue.groups import parse_groups
from muster.model.kueue import CohortOptions
from muster.model.section import Section

_NONE: Final = "none"


def parse_cohort(section: Section) -> CohortOptions:
    """`cohort` is a name, or `none` for teams that do not share."""
    name = section.text("cohort")
    options = CohortOptions(
        name=None if name == _NONE else name, exists=name != _NONE, resource_groups=parse_groups(section)
    )
    section.close()
    return options
