"""Where dcgm-exporter runs, which says what the GPUs of a node do.

The GPU Operator brings one. GKE brings one to clusters that are new since 1.32.1-gke.1357000, or that ask for
it, and the operator's may not start beside it. No team may have their namespaces.
Sources, read 2026-11-29: https://github.com/NVIDIA/gpu-operator (assets/state-dcgm-exporter),
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dcgm-metrics, and for its namespace, label and
port https://github.com/last9/l9-otel-operator (README.md).
"""

from dataclasses import dataclass
from typing import Final

from muster.model.programs import GPU_OPERATOR_NAMESPACE


@dataclass(frozen=True, slots=True)
class Exporters:
    """Pods of a DaemonSet. `label`: as a selector."""

    namespace: str
    label: str


EXPORTERS: Final = (
    Exporters(GPU_OPERATOR_NAMESPACE, "app=nvidia-dcgm-exporter"),
    Exporters("gke-managed-system", "app.kubernetes.io/name=gke-managed-dcgm-exporter"),
)
"""Of two on a node the first that answers counts."""
PORT: Final = 9400
