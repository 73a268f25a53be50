"""A cluster from manifests, as `fetch_cluster` reads it from a server."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from muster.adopt.cluster import LiveCluster, address
from muster.model.programs import Program
from muster.model.stack import Scheduler

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLE: Final = ROOT / "examples" / "adopted"
CLUSTER: Final = {"name": "prod", "context": "prod"}
KUEUE: Final = {
    "metadata": {
        "name": "kueue-controller-manager",
        "namespace": "kueue-system",
        "labels": {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/version": "v0.19.2"},
    }
}
_OF: Final = {"kueue": Program.KUEUE, "kuberay-operator": Program.KUBERAY}

Object = dict[str, Any]


def example() -> LiveCluster:
    return cluster_of(yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())["items"])


def cluster_of(items: Iterable[Object], *, kueue: Object | None = KUEUE) -> LiveCluster:
    """`kueue`: its Deployment, where the items have none."""
    by_kind: dict[str, list[Object]] = {}
    for each in items:
        by_kind.setdefault(each["kind"], []).append(each)
    programs: dict[Program, tuple[Object, ...]] = {Program.KUEUE: (kueue,)} if kueue else {}
    for each in by_kind.pop("Deployment", ()):
        programs[_OF[each["metadata"]["labels"]["app.kubernetes.io/name"]]] = (each,)
    nodes = tuple(by_kind.pop("Node", ()))
    by_kind.pop("Namespace", None)
    return LiveCluster(
        objects={
            Scheduler.KUEUE: {kind: tuple(sorted(listed, key=address)) for kind, listed in by_kind.items()}
        },
        nodes=nodes,
        programs=programs,
    )
