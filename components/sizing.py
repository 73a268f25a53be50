"""How much of a cluster the control plane takes, and on which nodes it runs.

Two sizes. `SMALL` is for the local cluster, where everything's requests together have to fit two cores: Kueue
100m, KubeRay 50m, ours 3 x 50m, that is 300m and 896 MiB. `REGULAR` is for real clusters: Kueue's own chart
asks for 500m and 512 MiB; KubeRay's manifest for 100m with a limit of 100m, which throttles it from some
hundred clusters on, so the limit is raised.
"""

from dataclasses import dataclass

from muster.model import names
from muster.model.providers import Provider
from muster.model.stack import ArtifactSource, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Requests and limits of one container, in the spelling of Kubernetes.

    `cpu`, `memory`: what it requests.
    `cpu_limit`, `memory_limit`: its limits.
    """

    cpu: str
    memory: str
    cpu_limit: str
    memory_limit: str

    def resources(self) -> dict[str, dict[str, str]]:
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory},
            "limits": {"cpu": self.cpu_limit, "memory": self.memory_limit},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Sizes of the control plane's containers.

    `kueue`, `kuberay`: of the controllers of Kueue and KubeRay.
    `manager`, `webhooks`: of the two programs of gang admission.
    `manager_replicas`: one acts, the others take over; with one, gangs wait while its pod is moved.
    `webhook_replicas`: with one, work gets no defaults and no review while its pod is moved.
    `pool`: the node pool that control pods run on, by Muster's pool label; None lets them run anywhere,
    beside the teams' work.
    """

    kueue: Size
    kuberay: Size
    manager: Size
    webhooks: Size
    manager_replicas: int = 2
    webhook_replicas: int = 1
    pool: str | None = None

    def node_selector(self) -> dict[str, str]:
        return {names.POOL_LABEL: self.pool} if self.pool else {}


def sizing_of(stack: Stack) -> Sizing:
    """The sizes that fit the stack's nodes, on the system pool where there is one."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return Sizing(
            kueue=Size(cpu="100m", memory="256Mi", cpu_limit="2", memory_limit="512Mi"),
            kuberay=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
            manager=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
            webhooks=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="256Mi"),
            pool=names.SYSTEM_POOL,
        )
    return Sizing(
        kueue=Size(cpu="500m", memory="512Mi", cpu_limit="4", memory_limit="4Gi"),
        kuberay=Size(cpu="200m", memory="512Mi", cpu_limit="2", memory_limit="2Gi"),
        manager=Size(cpu="200m", memory="256Mi", cpu_limit="2", memory_limit="1Gi"),
        webhooks=Size(cpu="100m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
        webhook_replicas=2,
        pool=None if stack.cluster.provider is Provider.EXISTING else names.SYSTEM_POOL,
    )
