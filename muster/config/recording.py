"""Reads `muster:recording`."""

from muster.model.quantities import Bytes, format_memory, parse_memory
from muster.model.recording import LEAST_STORAGE, RecordingSettings
from muster.model.section import Section


def parse_recording(section: Section) -> RecordingSettings:
    known = RecordingSettings()
    found = RecordingSettings(
        enabled=section.flag("enabled", known.enabled),
        storage=_storage(section, known.storage),
        storage_class=section.text("storageClass"),
        ephemeral=section.flag("ephemeral", known.ephemeral),
        names=section.flag("names", known.names),
        forecasts=section.flag("forecasts", known.forecasts),
    )
    section.close()
    return found


def _storage(section: Section, known: Bytes) -> Bytes:
    value = section.get("storage")
    if value is None:
        return known
    fix = f"write it like 10Gi; the least is {format_memory(LEAST_STORAGE)}."
    try:
        size = parse_memory(str(value))
    except ValueError as error:
        section.note("storage", f"must be a size: {error}.", fix)
        return known
    if size < LEAST_STORAGE:
        section.note("storage", f"is {value}, which is too small.", fix)
    return size
