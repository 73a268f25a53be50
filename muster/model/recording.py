"""Whether a recorder runs in the cluster, and where it keeps what it records: `muster:recording`."""

from dataclasses import dataclass
from typing import Final

from muster.model.quantities import GIB, Bytes

LEAST_STORAGE: Final = Bytes(GIB)
"""A volume has to hold a few parts and the file that is written."""

_STORAGE: Final = Bytes(10 * GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """`storage` is the size of the volume; the oldest parts of the recording are deleted before it is full.
    `storage_class` None takes the cluster's default. `ephemeral`: the volume is one of the pod, and ends with
    it. `names`: names of jobs are recorded, too. `forecasts`: when they may start is written on jobs that
    wait.
    """

    enabled: bool = False
    storage: Bytes = _STORAGE
    storage_class: str | None = None
    ephemeral: bool = False
    names: bool = False
    forecasts: bool = False
