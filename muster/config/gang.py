"""Reads `muster:gangAdmission`: the mode alone, or a mapping with the settings of Muster's controller."""

from collections.abc import Mapping
from typing import Final

from muster.config.section import Section
from muster.model.gangpolicy import GangPolicy, KaiPolicy, from_spec, to_manifest
from muster.model.stack import GangAdmission, GangMode

_KEY: Final = "gangAdmission"
# A policy without an empty field: its manifest has every key.
_FULL: Final = GangPolicy(placeholder_image="any", kai=KaiPolicy())


def parse_gang(root: Section) -> GangAdmission:
    """`muster`, `builtin` or `off`; or a mapping with the fields of GangPolicy and `mode`.

    Flavors are not written here, because they come from the pools.
    """
    if isinstance(root.get(_KEY), str | bool):
        return GangAdmission(mode=root.choice(_KEY, GangMode, GangMode.MUSTER) or GangMode.MUSTER)
    section = root.section(_KEY)
    mode = section.choice("mode", GangMode, GangMode.MUSTER) or GangMode.MUSTER
    default = to_manifest(_FULL)["spec"]
    written = {key: section.get(key) for key in default if key != "flavors"}
    settings = {key: value for key, value in written.items() if value is not None}
    if isinstance(settings.get("retry"), Mapping):
        settings["retry"] = _known(section.section("retry"), default["retry"])
    if section.has("flavors"):
        section.get("flavors")
        fix = "remove it; set `provisioningClass` and `parameters` of the pool instead."
        section.note("flavors", "come from muster:pools and are not written here.", fix)
    section.close()
    read = from_spec(settings, path=section.path)
    if isinstance(read, GangPolicy):
        return GangAdmission(mode=mode, policy=read)
    root.found.extend(read)
    return GangAdmission(mode=mode)


def _known(section: Section, keys: Mapping[str, object]) -> dict[str, object]:
    """The values of known keys. An unknown key is reported together with the most similar known one."""
    values = {key: section.get(key) for key in keys}
    section.close()
    return {key: value for key, value in values.items() if value is not None}
