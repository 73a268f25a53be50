"""Ray: supported releases, the authentication of its API, and the ports of its pods.

Not responsible for manifests (render/ray.py) nor for a team's network (render/tenancy).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster.model.versions import Version

# CVE-2026-27482 (DELETE on the dashboard by DNS rebinding) is fixed in 2.54.0; token authentication is in
# 2.52.0 and later (https://docs.ray.io/en/latest/ray-security/token-auth.html).
FLOOR: Final = Version(2, 54)


class RayAuth(StrEnum):
    """token: Ray's API accepts only the cluster's own secret. off: it accepts every caller that reaches it,
    so that its Jobs API runs anyone's code (CVE-2023-48022).
    """

    TOKEN = "token"  # noqa: S105 - the name of the way, not a token
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """What a stack asks of Ray clusters."""

    auth: RayAuth = RayAuth.TOKEN


class Peer(StrEnum):
    """Who opens connections to a Ray pod. team: pods of the same namespace, drivers and submitters among
    them. operator: KubeRay. metrics: whatever scrapes.
    """

    TEAM = "team"
    OPERATOR = "operator"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Port:
    """One port that a Ray pod listens on, and who from outside its cluster needs it."""

    name: str
    number: int
    peers: tuple[Peer, ...]


# Numbers: KubeRay 1.6.0, ray-operator/controllers/ray/utils/constant.go. Who calls: its
# dashboardclient (job submission and its state) and httpproxy_client (health of a RayService) call from the
# operator; `ray job submit` of a RayJob in K8sJobMode calls from a pod of the team.
PORTS: Final = (
    Port("gcs", 6379, (Peer.TEAM,)),
    Port("dashboard", 8265, (Peer.TEAM, Peer.OPERATOR)),
    Port("client", 10001, (Peer.TEAM,)),
    Port("serve", 8000, (Peer.TEAM, Peer.OPERATOR)),
    Port("agent", 52365, (Peer.TEAM, Peer.OPERATOR)),
    Port("metrics", 8080, (Peer.TEAM, Peer.METRICS)),
)
# Object transfer and workers take ports of their own choice between a cluster's nodes: every port, but only
# between pods of one namespace. A NetworkPolicy cannot express "of the same Ray cluster": labels are compared
# with constants alone.
NODE_LABEL: Final = "ray.io/is-ray-node"


def ports_for(peer: Peer) -> tuple[Port, ...]:
    return tuple(port for port in PORTS if peer in port.peers)
