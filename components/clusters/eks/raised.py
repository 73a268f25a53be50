"""The Kubernetes version that an EKS cluster runs, which AWS may have raised.

When standard support of a version ends, AWS raises the control plane. The provider sends any other version of
the stack to UpdateClusterVersion (terraform-provider-aws, internal/service/eks/cluster.go), which refuses a
lower one, and one that the cluster has already.
"""

from typing import Final

import pulumi

from muster.model.clusters import EksCluster
from muster.model.versions import Version

_LIST: Final = "aws:eks/getClusters:getClusters"
_DESCRIBE: Final = "aws:eks/getCluster:getCluster"


def ignored(cluster: EksCluster, opts: pulumi.ResourceOptions) -> list[str]:
    """The inputs to leave alone: `version`, unless the cluster runs an older one than the stack names."""
    running = _running(cluster.name, opts)
    if running is None or running < Version.of(cluster.version):
        return []
    if running > Version.of(cluster.version):
        minor = f"{running.major}.{running.minor}"
        pulumi.log.warn(
            f"cluster {cluster.name} runs Kubernetes {minor}, and the stack names {cluster.version}: AWS "
            f'raised it. Nothing is lowered. Write `version: "{minor}"`, which raises the nodes, too.'
        )
    return ["version"]


def _running(name: str, opts: pulumi.ResourceOptions) -> Version | None:
    """None where there is no cluster of this name. A function that fails would end the program."""
    provider = opts.provider if isinstance(opts.provider, pulumi.ProviderResource) else None
    asking = pulumi.InvokeOptions(provider=provider)
    if name not in (pulumi.runtime.invoke(_LIST, {}, asking).value.get("names") or ()):
        return None
    return Version.of(pulumi.runtime.invoke(_DESCRIBE, {"name": name}, asking).value["version"])
