"""Stack files with many Kueue settings, for tests that validate rendered objects against Kueue's CRDs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from muster.config import load
from muster.model.names import KUEUE_API_VERSION
from muster.model.stack import Stack
from muster.render import kueue

_HERE = Path(__file__).parent
EVERYTHING = _HERE / "everything.yaml"
PREEMPTING = _HERE / "preempting.yaml"
# Kind -> path -> the default that Kueue's definitions fill in, which is what the model means by an unset
# field. A path below a field that is not there fills nothing in. Compared with the pinned definitions
# (test_kueue_api.py) and with a real API server (tests/integration/kueue_api).
DEFAULTED: Final[Mapping[str, Mapping[str, object]]] = {
    "ClusterQueue": {
        "spec.flavorFungibility.whenCanBorrow": "MayStopSearch",
        "spec.flavorFungibility.whenCanPreempt": "TryNextFlavor",
        "spec.preemption.borrowWithinCohort.policy": "Never",
        "spec.stopPolicy": "None",
    },
    "LocalQueue": {"spec.stopPolicy": "None"},
}


def everything() -> tuple[Stack, ...]:
    """Stacks that together use every field."""
    return load(EVERYTHING), load(PREEMPTING)


def rendered(some: Stack) -> list[dict[str, Any]]:
    """Every object of a stack that is Kueue's, and the teams' namespaces, in an order that can be applied."""
    objects = [*kueue.topologies(some), *kueue.flavors(some), *kueue.priority_classes(some)]
    objects += kueue.admission_check(some)
    for group in kueue.by_department(some).values():
        objects += [item for items in group.values() for item in items]
    return [
        item for item in objects if item["apiVersion"] == KUEUE_API_VERSION or item["kind"] == "Namespace"
    ]
