"""Two platforms in one program: every resource is named after its platform, so none collide."""

from pathlib import Path

import pulumi

from muster import config
from muster.components.clusters.cluster import ClusterInputs
from muster.components.platform import Platform, PlatformArgs

settings = pulumi.Config()
platforms = {}
for name in ("research", "production"):
    platforms[name] = Platform(
        name,
        PlatformArgs(
            stack=config.load(Path(f"{name}.yaml")),
            cluster=ClusterInputs(kubeconfig=settings.require_secret(f"{name}Kubeconfig")),
        ),
    )

pulumi.export("queueNames", {name: platform.queue_names for name, platform in platforms.items()})
