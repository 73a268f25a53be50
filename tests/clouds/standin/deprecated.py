"""What the stand-ins take although a definition calls it deprecated, why, and since when it was looked up.

Anything else that an API or an SDK calls deprecated is refused: a new customer may not get it any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from tests.clouds.standin.tables import eks, gke


@dataclass(frozen=True, slots=True)
class Allowed:
    """`read`: the day on which the reason was found in the sources."""

    reason: str
    read: date


_DEFAULT_POOL: Final = Allowed(
    "the default pool, which the provider makes and removes, has no other inputs: "
    "resource_container_cluster.go of terraform-provider-google-beta at 7.45.0",
    date(2026, 11, 27),
)
# (resource type, input of the table, below which all is allowed).
ALLOWED: Final[Mapping[tuple[str, str], Allowed]] = {
    (gke.CLUSTER_TYPE, "initialNodeCount"): _DEFAULT_POOL,
    (gke.CLUSTER_TYPE, "nodeConfig"): _DEFAULT_POOL,
    (eks.CLUSTER_TYPE, "encryptionConfig.resources"): Allowed(
        "EKS encrypts everything by default and only still lets the list say so; the SDK requires it",
        date(2026, 11, 27),
    ),
}


def allowed(token: str, path: str) -> Allowed | None:
    """The entry for an input, or for one above it."""
    while path:
        if (token, path) in ALLOWED:
            return ALLOWED[token, path]
        path = path.rpartition(".")[0]
    return None
