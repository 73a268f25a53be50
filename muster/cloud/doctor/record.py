"""The record of a run on a real project, without names: what a user can attach to a report.

Responsible for what is in it. Figures and words of the stack language are taken one by one; free text (what
a check found) goes through Anonymizer. Not responsible for running `pulumi` (history.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.cloud.doctor.anonymous import Anonymizer
from muster.cloud.doctor.findings import Finding
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.pools import Pool
from muster.model.stack import Stack

FORMAT: Final = "muster.first-run/1"


def record(
    stack: Stack,
    *,
    document: Mapping[str, object],
    findings: Iterable[Finding],
    updates: list[dict[str, Any]],
    name: str,
    version: str,
) -> dict[str, Any]:
    """`document`: the stack file's values. `updates`: what history.updates returned. `name`: the stack's."""
    without_names = Anonymizer(document, name)
    return {
        "format": FORMAT,
        "muster": version,
        "cluster": _cluster(stack),
        "scheduler": stack.scheduler.value,
        "teams": sum(1 for _ in stack.teams()),
        "pools": [_pool(each) for each in stack.pools],
        "findings": [_finding(each, without_names) for each in findings],
        "updates": updates,
    }


def _finding(finding: Finding, without_names: Anonymizer) -> dict[str, str]:
    """Without the message of a lock, which names its holder and the machine: no stack file contains them."""
    found = {key: without_names(str(value)) for key, value in finding.document().items()}
    return found | {"message": ""} if finding.check == "lock" else found


def _cluster(stack: Stack) -> dict[str, Any]:
    cluster = stack.cluster
    found: dict[str, Any] = {"provider": cluster.provider.value}
    if isinstance(cluster, GkeCluster | EksCluster):
        found |= {"region": cluster.region, "zones": len(cluster.zones)}
    return found


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "machine": pool.machine.name,
        "gpus": pool.gpus_per_node,
        "capacity": pool.capacity.value,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "zones": len(pool.zones),
        "efa": pool.efa,
        "placement": pool.placement.value,
    }
