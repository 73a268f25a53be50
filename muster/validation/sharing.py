"""GPU sharing: what a GPU can be divided into, and where the node can be configured for it."""

from collections.abc import Iterator

from muster.model.clusters import Cluster, GkeCluster
from muster.model.gpu_operator import GpuStack, gpu_stack
from muster.model.nodes import Image
from muster.model.pools import Pool
from muster.model.sharing import MIG_PROFILES, MOST_SHARES, NOT_ISOLATED, Sharing
from muster.model.stack import Stack
from muster.model.violations import Violation, suggestion

_OFF = "remove `sharing`, or write `sharing: none`."


def sharing_rules(stack: Stack) -> list[Violation]:
    """Every rule about sharing GPUs, and a warning where it does not isolate."""
    return [found for pool in stack.pools for found in _pool(pool, stack.cluster)]


def _pool(pool: Pool, cluster: Cluster) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}"
    kind = pool.sharing.kind
    if kind is Sharing.NONE:
        if pool.sharing.shares != 1 or pool.sharing.profile:
            yield Violation(
                f"{path}.sharing", "is missing, but the number or profile of shares is written.", "write it."
            )
        return
    if not pool.is_gpu:
        yield Violation(f"{path}.sharing", "the pool has no GPU to share.", _OFF)
        return
    if not pool.is_nvidia:
        message = f"{pool.devices} cannot be shared: Muster shares NVIDIA's GPUs alone."
        yield Violation(f"{path}.sharing", message, _OFF)
        return
    yield from _mig(pool, path) if kind is Sharing.MIG else _shares(pool, path)
    yield from _reachable(pool, cluster, path)
    if kind in NOT_ISOLATED:
        fix = "use it for work of one team that trusts itself; `mig` isolates, where the GPU has it."
        yield Violation(f"{path}.sharing", NOT_ISOLATED[kind], fix, "warning")


def _shares(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.sharing.profile is not None:
        yield Violation(f"{path}.migProfile", f"means nothing with {pool.sharing.kind}.", "remove it.")
    if not 2 <= pool.sharing.shares <= MOST_SHARES:
        message = f"is {pool.sharing.shares}; a shared GPU serves 2 to {MOST_SHARES} pods."
        yield Violation(f"{path}.shares", message, "write how many, such as 4.")


def _mig(pool: Pool, path: str) -> Iterator[Violation]:
    accelerator = pool.accelerator.name if pool.accelerator else ""
    profiles = MIG_PROFILES.get(accelerator)
    if profiles is None:
        message = f"{accelerator} cannot be cut into instances."
        yield Violation(f"{path}.sharing", message, f"use one of: {', '.join(sorted(MIG_PROFILES))}.")
    elif pool.sharing.profile not in profiles:
        message = f"{pool.sharing.profile or 'nothing'!r} is no profile of {accelerator}."
        fix = suggestion(pool.sharing.profile or "", profiles, noun="profile")
        yield Violation(f"{path}.migProfile", message, fix)


def _reachable(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """The component that advertises the GPUs has to be one that Muster configures."""
    if pool.image is Image.BOTTLEROCKET:
        message = (
            "Bottlerocket's own device plugin advertises its GPUs, and is set up in the node's user data."
        )
        yield Violation(f"{path}.sharing", message, "use `image: al2023` for shared GPUs.")
    if gpu_stack(cluster) is GpuStack.OCI_MANAGED:
        message = "OKE's add-on NvidiaGpuPlugin advertises these GPUs, and Muster does not configure it."
        fix = "remove `sharing`, or remove the add-on, use nodes without a driver and write `cloud: other`."
        yield Violation(f"{path}.sharing", message, fix)
    has_installer = isinstance(cluster, GkeCluster) and not cluster.gpu_driver.is_managed
    if has_installer and pool.sharing.kind is Sharing.MIG:
        message = "on GKE only GKE's own driver cuts GPUs into instances."
        yield Violation(f"{path}.sharing", message, "use `gpuDriver: default` for the cluster.")
