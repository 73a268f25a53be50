"""A chart's published values beside ours: which of our paths its version does not have."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

# Charts inside a chart have values of their own, which their parent's file lists in part.
# gpu-operator v26.7.0 requires node-feature-discovery, whose chart has these
# (github.com/kubernetes-sigs/node-feature-discovery, deployment/helm/node-feature-discovery/values.yaml).
OF_SUBCHARTS = {
    "gpu-operator": frozenset(
        {"node-feature-discovery.master.nodeSelector", "node-feature-discovery.gc.nodeSelector"}
    )
}

# Values that charts hand on to the API server as they are: what may stand in them is Kubernetes'
# to say, and charts write only a part of it as an example.
OF_KUBERNETES = frozenset({"resources", "affinity", "nodeSelector", "securityContext"})


def published(name: str) -> Path:
    """Where the published values of a chart may lie: beside the checkout, never in it."""
    return Path(__file__).parents[3].parent / "shared" / "data" / "chart-values" / name


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def unknown_paths(ours: Mapping[str, Any], theirs: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Paths of ours that the chart does not know. An empty mapping of theirs takes any key."""
    for key, value in ours.items():
        path = f"{above}.{key}" if above else key
        if key not in theirs:
            yield path
        elif key in OF_KUBERNETES:
            continue
        elif isinstance(value, Mapping) and isinstance(theirs[key], Mapping) and theirs[key]:
            yield from unknown_paths(value, theirs[key], path)
