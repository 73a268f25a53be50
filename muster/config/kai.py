"""Reads `muster:kai`, whose keys muster/model/kai declares."""

from muster.model.kai import KaiSettings
from muster.model.keys import read
from muster.model.section import Section


def parse_kai(section: Section) -> KaiSettings:
    """The settings. Those of an absent section are KAI's defaults."""
    return read(KaiSettings, section) or KaiSettings()
