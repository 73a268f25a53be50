"""An object of your own after the queues: a second LocalQueue of one team, for its nightly jobs."""

from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

from muster import config
from muster.components.clusters.cluster import ExistingCluster, ExistingClusterArgs
from muster.components.queues import Priorities, PrioritiesArgs, Queues, QueuesArgs

cluster = ExistingCluster(
    "shared",
    ExistingClusterArgs(cluster_name="shared", kubeconfig=pulumi.Config().require_secret("kubeconfig")),
)
stack = config.load(Path("teams.yaml"))
priorities = Priorities("priorities", PrioritiesArgs(stack=stack, provider=cluster.bundles))
queues = Queues(
    "queues",
    QueuesArgs(stack=stack, provider=cluster.bundles),
    opts=pulumi.ResourceOptions(depends_on=priorities.classes),
)
nightly = kubernetes.apiextensions.CustomResource(
    "nightly",
    api_version="kueue.x-k8s.io/v1beta2",
    kind="LocalQueue",
    metadata={"name": "nightly", "namespace": "team-a"},
    spec={"clusterQueue": queues.queue_names.apply(lambda names: names["team-a"])},
    # The team's Bundle holds its namespace: made before, deleted after.
    opts=pulumi.ResourceOptions(provider=cluster.kubernetes, depends_on=[queues.teams["team-a"]]),
)

pulumi.export("nightly", nightly.id)
