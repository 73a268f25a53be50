"""GPUDirect on GKE: a pool's `networks` are refused where no job could use them.

Muster attaches networks that exist and sets up nothing else of GPUDirect: half of it would cost the pool its
plain form and speed nothing up. docs/fast-networks.md says what the rest is.
"""

from collections.abc import Iterator
from typing import Final

from muster.model.clusters import GkeCluster
from muster.model.machines.fabric import FURTHER_NETWORKS
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation

_REMOVE: Final = "remove `networks`: jobs of several nodes then talk over the first network card"


def gpudirect_rules(stack: Stack) -> Iterator[Violation]:
    if not isinstance(stack.cluster, GkeCluster):
        return
    for pool in stack.pools:
        if pool.networks and pool.machine.fabric is not None:
            yield from _of_pool(stack, pool, f"muster:pools.{pool.name}.networks")


def _of_pool(stack: Stack, pool: Pool, path: str) -> Iterator[Violation]:
    """The pods of GPUDirect mount folders of their node and add capabilities, both of which the Pod Security
    Standards of teams' namespaces forbid:
    https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/gpudirect-tcpxo
    https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    fabric = pool.machine.fabric
    if fabric is None:
        return
    wanted, given = FURTHER_NETWORKS[fabric], len(pool.networks)
    if given != wanted:
        message = f"{fabric} of {pool.machine.name} takes {wanted} further networks, and {given} are named."
        yield Violation(path, message, f"name {wanted}, in the order of the cards, or {_REMOVE}.")
    if stack.tenancy.namespaces is not Namespaces.EXISTING:
        level = stack.tenancy.pod_security
        message = (
            f"no pod of a team can use {fabric}: it mounts folders of its node, which the Pod Security "
            f"Standard {level} of teams' namespaces forbids."
        )
        fix = f"{_REMOVE}; or bring namespaces of your own, `muster:tenancy: {{namespaces: existing}}`."
        yield Violation(path, message, fix)
