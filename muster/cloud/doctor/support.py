"""Whether the cloud still supports the cluster's Kubernetes version, and whether it has raised it itself."""

from collections.abc import Iterator
from datetime import date
from typing import Any, Final

from muster.cloud.amazon import AmazonError, answered
from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.model.clusters import EksCluster
from muster.model.stack import Stack
from muster.model.support_calendar import Outlook, Phase
from muster.model.versions import Version
from muster.validation.support import cluster_outlook

_CHECK: Final = "support"


def check_support(stack: Stack, *, today: date) -> Iterator[Finding]:
    """By the calendar alone. For GKE, whose dates are estimates."""
    found = cluster_outlook(stack, today=today)
    if found is not None:
        yield _judge(found, exists=True)


def check_eks_version(stack: Stack, cluster: EksCluster, eks: Any, *, today: date) -> Iterator[Finding]:
    """By the calendar and by what the cluster runs. A new cluster of an unsupported version fails."""
    try:
        running = answered(lambda: eks.describe_cluster(name=cluster.name))["cluster"]["version"]
    except AmazonError as error:
        if error.code != "ResourceNotFoundException":
            raise
        running = ""
    if running and Version.of(running) > Version.of(cluster.version):
        message = (
            f"the cluster runs Kubernetes {running}, and the stack names {cluster.version}: AWS raised it"
        )
        fix = f'write `version: "{running}"`; `pulumi up` does not lower it, and EKS would refuse that'
        yield failed(_CHECK, message, fix)
    found = cluster_outlook(stack, today=today)
    if found is not None:
        yield _judge(found, exists=bool(running))


def _judge(found: Outlook, *, exists: bool) -> Finding:
    if found.phase is Phase.SUPPORTED:
        return passed(_CHECK, f"Kubernetes {found.support.minor} is supported until {found.end}")
    if found.refuses_new and not exists:
        return failed(_CHECK, found.message, found.fix)
    return Finding(_CHECK, State.UNKNOWN, found.message, found.fix)
