"""What `muster:recording` needs of the rest of the stack."""

from collections.abc import Iterator
from typing import Final

from muster.model.stack import GangMode, Scheduler, Stack
from muster.model.violations import Violation

_PATH: Final = "muster:recording"


def recording_rules(stack: Stack) -> Iterator[Violation]:
    wanted = stack.recording
    if wanted.enabled and stack.gang_admission.mode is not GangMode.MUSTER:
        yield Violation(
            f"{_PATH}.enabled",
            "its pod has the image of Muster's controller, which this stack does not install.",
            "remove it and run `muster record` elsewhere, or write `muster:gangAdmission: {mode: muster}`.",
        )
    words = {"ephemeral": wanted.ephemeral, "names": wanted.names, "forecasts": wanted.forecasts}
    for key, is_set in words.items():
        if is_set and not wanted.enabled:
            yield Violation(
                f"{_PATH}.{key}", "is set, but nothing is recorded.", "write `enabled: true`, or remove it."
            )
    if wanted.ephemeral and wanted.storage_class is not None:
        yield Violation(
            f"{_PATH}.storageClass",
            "names the StorageClass of a volume that `ephemeral: true` leaves out.",
            "remove one of the two.",
        )
    if wanted.forecasts:
        yield from (
            Violation(
                f"{_PATH}.forecasts",
                f"Kueue's scheduler plays what may follow, and it cannot play {what}.",
                "remove it.",
            )
            for what in _unplayable(stack)
        )


def _unplayable(stack: Stack) -> Iterator[str]:
    if stack.scheduler is not Scheduler.KUEUE:
        yield f"a stack with {stack.scheduler}"
    if stack.kueue.usage_sharing is not None:
        yield "`muster:kueue.admissionFairSharing`"
    if stack.kueue.topologies:
        yield "`muster:kueue.topologies`"
