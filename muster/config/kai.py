"""Reads `muster:kai`, whose keys muster/model/kai declares."""

from muster.config.declared import read
from muster.config.section import Section
from muster.model.kai import KaiSettings


def parse_kai(section: Section) -> KaiSettings:
    """The settings. Those of an absent section are KAI's defaults."""
    return read(KaiSettings, section) or KaiSettings()
