"""Warns of a Kubernetes version whose support ends, or has ended.

Only a warning: whether the cluster exists is not known here, and an existing one has to stay deployable. The
doctor and the policy pack, which know, refuse a new cluster of such a version.
"""

from collections.abc import Iterator
from datetime import date

from muster.model.clusters import EksCluster, GkeCluster, ReleaseChannel
from muster.model.providers import Provider
from muster.model.stack import Stack
from muster.model.support_calendar import Outlook, Phase, outlook
from muster.model.violations import Violation


def support_rules(stack: Stack, *, today: date) -> Iterator[Violation]:
    """At most one warning, at the cluster's version."""
    found = cluster_outlook(stack, today=today)
    if found is None or found.phase is Phase.SUPPORTED:
        return
    new = " A new cluster of it is refused." if found.refuses_new else ""
    message = f"{found.message}.{new} Source: {found.support.source}."
    yield Violation("muster:cluster.version", message, found.fix, level="warning")


def cluster_outlook(stack: Stack, *, today: date) -> Outlook | None:
    """None for a cluster that is not ours, or whose version the cloud chooses."""
    match stack.cluster:
        case EksCluster(version=version):
            # Muster's clusters are not enrolled in extended support (components/clusters/eks).
            return outlook(Provider.EKS, version, today=today)
        case GkeCluster(version=str(version), release_channel=channel):
            extended = channel is ReleaseChannel.EXTENDED
            return outlook(Provider.GKE, version, today=today, extended=extended)
        case _:
            return None
