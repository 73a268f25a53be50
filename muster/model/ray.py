"""Ray: supported releases, the authentication of its API, the ports of its pods, and how running work may be
upgraded.

Never by pods that no queue has counted: the rules are in muster-ray-size (render/tenancy/policies), and the
webhooks set what is unset. Read in KubeRay 1.6.2 (ray-operator/controllers/ray: rayservice_controller.go,
raycluster_controller.go, utils/validation.go) and run in tests/integration/kueue_api/test_ray_service.py.
With KAI every pod of a second cluster has a scheduling gate of its own, so any strategy is allowed. The
preview does not check this, because stack files contain no Ray objects.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from muster.model.keys import declared
from muster.model.programs import Version
from muster.model.section import Section

# CVE-2026-27482 (DELETE on the dashboard by DNS rebinding) is fixed in 2.54.0.
FLOOR: Final = Version(2, 54)
# The first release that knows token authentication.
# Source: https://docs.ray.io/en/latest/ray-security/token-auth.html, read 2026-11-23
# KubeRay 1.6 fails a cluster that asks an older one for it, or names no release
# (ray-operator/controllers/ray/utils/validation.go).
FIRST_WITH_TOKEN: Final = Version(2, 52)
RELEASED_IMAGE: Final = "/ray(-ml|-llm)?:[0-9]+[.][0-9]+"
"""Where an image's reference names a release of Ray; RE2 and Python read it alike."""

_RELEASE: Final = re.compile(r"/ray(?:-ml|-llm)?:([0-9]+[.][0-9]+(?:[.][0-9]+)?)")


def release_of(image: str) -> str:
    """The release that a published image is of, as `2.54.0`; empty for any other image."""
    match = _RELEASE.search(image)
    return match[1] if match else ""


class RayAuth(StrEnum):
    """Whether Ray's API accepts only callers with the cluster's own secret. Without it, its Jobs API runs the
    code of everyone who reaches it (CVE-2023-48022).

    required: work without it is refused, and so is Ray older than the minimum. preferred: both are warned of.
    off: only the minimum is required. token is the former word for required.
    """

    REQUIRED = "required"
    PREFERRED = "preferred"
    OFF = "off"
    TOKEN = "token"  # noqa: S105 - a word of the stack language


def _read_release(section: Section, key: str) -> Version:
    if (text := section.text(key)) is None:
        return FLOOR
    try:
        release = Version.of(text)
    except ValueError:
        section.note(key, f"{text!r} is no release of Ray.", 'write one in quotes, such as "2.54".')
        return FLOOR
    if release.patch:
        message = f"{text!r} has a patch, and the policies compare the minor release alone."
        older, newer = (f'"{release.major}.{minor}"' for minor in (release.minor, release.minor + 1))
        section.note(key, message, f"write {older} or {newer}.")
    return release


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """What a stack asks of Ray clusters. `minimum` is the oldest release."""

    auth: RayAuth = declared(
        "Whether work whose Ray API needs no token, or whose Ray is older than `minimum`, is refused "
        "(`required`) or warned of (`preferred`). With `off` only `minimum` is required. `token` is the "
        "former word for `required`.",
        RayAuth.REQUIRED,
        example=RayAuth.PREFERRED.value,
    )
    minimum: Version = declared(
        "The oldest release of Ray, in quotes.", FLOOR, example="2.55", read=_read_release
    )

    @staticmethod
    def complete(section: Section, values: dict[str, Any]) -> dict[str, Any]:
        auth, minimum = values["auth"], values["minimum"]
        auth = RayAuth.REQUIRED if auth is RayAuth.TOKEN else auth
        if auth is RayAuth.REQUIRED and minimum < FIRST_WITH_TOKEN:
            known = f"Ray {minimum.major}.{minimum.minor} has no token authentication"
            fix = f'write "{FIRST_WITH_TOKEN.major}.{FIRST_WITH_TOKEN.minor}" or newer, or `auth: preferred`.'
            section.note("minimum", f"{known}, which `required` asks for.", fix)
        return {**values, "auth": auth}

    @property
    def is_guarded(self) -> bool:
        """Whether clusters are given a token."""
        return self.auth is not RayAuth.OFF

    @property
    def is_advice(self) -> bool:
        """Whether what is missing is warned of, and not refused."""
        return self.auth is RayAuth.PREFERRED


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


class Upgrade(StrEnum):
    """What KubeRay does when the spec of a cluster changes. NEW_CLUSTER, the default of RayServices, starts
    a second cluster while the first runs. RECREATE deletes every pod of a RayCluster.
    """

    NONE = "None"
    NEW_CLUSTER = "NewCluster"
    RECREATE = "Recreate"
