"""What a recorder follows in a cluster, and what turns it into jobs: one source for each scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Object, Resource
from muster.replay.recording import Job, Node, Recording

EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects that are listed and watched."""

    resource: Resource[Any]
    selection: Selection = EVERYTHING


class Source(Protocol):
    """Pure: fed with objects in any order and any number of times. Each method returns the jobs and nodes
    that have changed. `at` is the time of the observation.
    """

    @property
    def kinds(self) -> Sequence[Kind]: ...

    @property
    def count(self) -> int:
        """Jobs seen since the start."""

    @property
    def open_count(self) -> int:
        """Jobs that wait or run."""

    def restore(self, recording: Recording) -> None:
        """Go on where a recording ends."""

    def replace(
        self, kind: Kind, objects: Sequence[Object], *, at: float, gone_at: float
    ) -> Sequence[Job | Node]:
        """These are all objects of the kind. What is missing was gone at `gone_at`."""

    def put(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]: ...

    def remove(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]: ...


def metadata(obj: Object) -> Mapping[str, object]:
    """The metadata that jobs are made from, as JSON."""
    meta = obj.metadata
    owners = [
        {"kind": each.kind, "name": each.name, "controller": each.controller}
        for each in meta.owner_references
    ]
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "creationTimestamp": "" if meta.creation_timestamp is None else meta.creation_timestamp.isoformat(),
        "ownerReferences": owners,
    }


def seconds(at: datetime | None, otherwise: float) -> float:
    return otherwise if at is None else at.timestamp()
