"""What `muster:recording` needs of the rest of the stack."""

from collections.abc import Iterator
from typing import Final

from muster.model.stack import GangMode, Stack
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
    for key, is_set in (("ephemeral", wanted.ephemeral), ("names", wanted.names)):
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
