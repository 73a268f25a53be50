"""Reads `muster:gangAdmission`: the mode alone, or a mapping with the settings of Muster's controller."""

from typing import Final

from muster.model.gangpolicy import GangPolicy, violations
from muster.model.keys import read
from muster.model.section import Section
from muster.model.stack import GangAdmission, GangMode

_KEY: Final = "gangAdmission"


def parse_gang(root: Section) -> GangAdmission:
    """`muster`, `builtin` or `off`; or a mapping with the fields of GangPolicy and `mode`.

    Flavors are not written here, because they come from the pools.
    """
    if isinstance(root.get(_KEY), str | bool):
        return GangAdmission(mode=root.choice(_KEY, GangMode, GangMode.MUSTER) or GangMode.MUSTER)
    section = root.section(_KEY)
    mode = section.choice("mode", GangMode, GangMode.MUSTER) or GangMode.MUSTER
    if section.has("flavors"):
        fix = "remove it; set `provisioningClass` and `parameters` of the pool instead."
        section.note("flavors", "come from muster:pools and are not written here.", fix)
    policy = read(GangPolicy, section, flavors=(), compared_labels=()) or GangPolicy()
    root.found.extend(violations(policy, path=section.path))
    return GangAdmission(mode=mode, policy=policy)
