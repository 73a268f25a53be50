"""A cluster from manifests, as `fetch_cluster` reads it from a server."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from muster.adopt.adoption import Adoption
from muster.adopt.cluster import LiveCluster, address
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.programs import Program
from muster.model.stack import Scheduler, Stack

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


def example_objects() -> list[Object]:
    objects: list[Object] = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())["items"]
    return objects


def example() -> LiveCluster:
    return cluster_of(example_objects())


def cluster_of(items: Iterable[Object], *, kueue: Object | None = KUEUE) -> LiveCluster:
    """`kueue`: its Deployment, where the items have none."""
    listed = by_kind(items)
    programs: dict[Program, tuple[Object, ...]] = {Program.KUEUE: (kueue,)} if kueue else {}
    for each in listed.pop("Deployment", ()):
        programs[_OF[each["metadata"]["labels"]["app.kubernetes.io/name"]]] = (each,)
    nodes = listed.pop("Node", ())
    listed.pop("Namespace", None)
    return LiveCluster(objects={Scheduler.KUEUE: listed}, nodes=nodes, programs=programs)


def by_kind(objects: Iterable[Object]) -> dict[str, tuple[Object, ...]]:
    lists: dict[str, list[Object]] = {}
    for each in objects:
        lists.setdefault(each["kind"], []).append(each)
    return {kind: tuple(sorted(listed, key=address)) for kind, listed in lists.items()}


def stack_of(adopted: Adoption) -> Stack:
    stack, _ = examine(parse_text(adopted.text, source="test.yaml"))
    assert stack is not None, adopted.mistakes
    return stack


def lost(adopted: Adoption) -> list[tuple[str, str]]:
    """(object, field) of what the stack cannot say, where it matters."""
    return [(each.object, each.field) for each in adopted.findings if each.matters]
