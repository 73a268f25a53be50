"""How KWOK is started: it keeps nodes without a machine, on which pods count as running."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from muster.local.simulated_cloud.names import KWOK_ANNOTATION

STAGES: Final = "kwok-stages"
"""The asset that holds the files of KWOK's stages."""
ALL_STAGES: Final = ("node/fast", "node/heartbeat", "pod/fast")
# Pods run until someone ends them: `pod-complete` would end those of a Job at once.
ENDLESS_STAGES: Final = (
    *("node/fast/node-initialize.yaml", "node/heartbeat/node-heartbeat.yaml"),
    *("pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml"),
)


def flags(kubeconfig: Path, stages: Path, parts: Iterable[str], *, port: int) -> tuple[str, ...]:
    """For nodes that have the annotation, and no others. `parts`: files or folders of the asset `stages`."""
    return (
        f"--kubeconfig={kubeconfig}",
        *(f"--config={stages / part}" for part in parts),
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}=fake",
        "--node-ip=10.0.0.1",
        f"--server-address=127.0.0.1:{port}",
        "--enable-crds=",
    )
