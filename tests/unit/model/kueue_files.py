"""Stack files with many Kueue settings, for tests that validate rendered objects against Kueue's CRDs."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from muster.config import load
from muster.model.names import KUEUE_API_VERSION
from muster.model.stack import Stack
from muster.render import kueue
from tests.unit.model.go_modules import KUEUE, source_of

Schema = dict[str, Any]
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


@cache
def definitions() -> dict[str, Schema]:
    """kind -> schema of v1beta2 in the pinned Kueue, but Workload's, which takes seconds to read."""
    schemas = {}
    for path in source_of(KUEUE, "config/components/crd/bases").glob("*.yaml"):
        if not path.stem.endswith("_workloads"):
            definition = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["spec"]
            (version,) = (each for each in definition["versions"] if each["name"] == "v1beta2")
            schemas[definition["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
    return schemas


def rendered(some: Stack) -> list[dict[str, Any]]:
    """Every object of a stack that is Kueue's, and the teams' namespaces, in an order that can be applied."""
    objects = [*kueue.topologies(some), *kueue.flavors(some), *kueue.priority_classes(some)]
    objects += kueue.admission_check(some)
    for group in kueue.by_department(some).values():
        objects += [item for items in group.values() for item in items]
    return [
        item for item in objects if item["apiVersion"] == KUEUE_API_VERSION or item["kind"] == "Namespace"
    ]
