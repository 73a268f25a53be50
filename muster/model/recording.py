"""Whether a recorder runs in the cluster, and where it keeps what it records: `muster:recording`."""

from dataclasses import dataclass
from typing import Final

from muster.model.keys import declared
from muster.model.quantities import GIB, Bytes, format_memory, parse_memory
from muster.model.section import Section

LEAST_STORAGE: Final = Bytes(GIB)
"""A volume has to hold a few parts and the file that is written."""

_STORAGE: Final = Bytes(10 * GIB)


def _read_storage(section: Section, key: str) -> Bytes:
    if (value := section.get(key)) is None:
        return _STORAGE
    fix = f"write it like 10Gi; the least is {format_memory(LEAST_STORAGE)}."
    try:
        size = parse_memory(str(value))
    except ValueError as error:
        section.note(key, f"must be a size: {error}.", fix)
        return _STORAGE
    if size < LEAST_STORAGE:
        section.note(key, f"is {value}, which is too small.", fix)
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """`storage` is the size of the volume; the oldest parts of the recording are deleted before it is full.
    `storage_class` None takes the cluster's default. `ephemeral`: the volume is one of the pod, and ends with
    it. `names`: names of jobs are recorded, too. `forecasts`: when they may start is written on jobs that
    wait.
    """

    enabled: bool = declared(
        "Whether a recorder runs in the cluster and keeps arrivals, runs and evictions of its jobs.", False
    )
    storage: Bytes = declared(
        "The size of the recorder's volume. Before it is full, the oldest part of the recording is deleted.",
        _STORAGE,
        example="20Gi",
        read=_read_storage,
    )
    storage_class: str | None = declared(
        "The StorageClass of the volume.",
        None,
        default_text="the cluster's own default",
        example="standard-rwo",
    )
    ephemeral: bool = declared(
        "Whether the recording lies on the pod's node and is lost with the pod: for clusters without a "
        "StorageClass.",
        False,
    )
    names: bool = declared("Whether names of jobs, and of the nodes that they select, are recorded.", False)
    forecasts: bool = declared(
        "Whether annotation `muster.dev/forecast` of each waiting Workload says when it may start.", False
    )
