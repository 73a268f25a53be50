"""Reads `muster:gangAdmission`: one word for who provides capacity, or a mapping with Muster's own
settings.
"""

from collections.abc import Mapping

from model.gangpolicy import GangPolicy, from_spec
from model.stack import GangAdmission, GangMode
from model.violations import suggestion
from stackconfig.section import Section, told


def read_gang(value: object, path: str, section: Section) -> GangAdmission:
    """`muster`, `builtin` or `off`; or GangPolicy's fields, and `mode` beside them. Pools say the flavors,
    not this.
    """
    if isinstance(value, str):
        return GangAdmission(mode=_mode(value, path, section))
    if value is not None and not isinstance(value, Mapping):
        section.note(
            "gangAdmission",
            f"must be a word or a mapping, is {told(value)}.",
            "write muster, builtin or off.",
        )
        return GangAdmission()
    settings = dict(value or {})
    if "flavors" in settings:
        message = "comes from the pools and is not written here."
        section.note(
            "gangAdmission.flavors", message, "remove it; set a pool's class and parameters in muster:pools."
        )
        del settings["flavors"]
    word = settings.pop("mode", GangMode.MUSTER.value)
    mode = _mode(word, f"{path}.mode", section)
    read = from_spec(settings, path=path)
    if isinstance(read, GangPolicy):
        return GangAdmission(mode=mode, policy=read)
    section.found.extend(read)
    return GangAdmission(mode=mode)


def _mode(word: object, path: str, section: Section) -> GangMode:
    allowed = [mode.value for mode in GangMode]
    if isinstance(word, str) and word in allowed:
        return GangMode(word)
    key = path.removeprefix("muster:")
    section.note(key, f"is {told(word)}, which is not allowed.", suggestion(str(word), allowed, noun="mode"))
    return GangMode.MUSTER
