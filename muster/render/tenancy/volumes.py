"""A team's data volumes, as PersistentVolumeClaims that its pods mount by name."""

from collections.abc import Mapping

from muster.model.queues import Team
from muster.model.tenancy import Volume
from muster.render.manifest import Manifest, manifest


def volumes(team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    return [_claim(team, volume, labels) for volume in team.access.volumes]


def _claim(team: Team, volume: Volume, labels: Mapping[str, str]) -> Manifest:
    spec: Manifest = {
        "accessModes": ["ReadWriteMany" if volume.shared else "ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.volume is not None:
        # The empty class keeps the default class from making a second, empty one.
        spec |= {"volumeName": volume.volume, "storageClassName": volume.storage_class or ""}
    elif volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    namespace = volume.namespace or team.namespace
    return manifest("v1", "PersistentVolumeClaim", volume.name, namespace=namespace, labels=labels, spec=spec)
