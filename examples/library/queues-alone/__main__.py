"""The queues alone: another program made the cluster and installed Kueue, and exports a kubeconfig."""

from pathlib import Path

import pulumi

from muster import config
from muster.components.bundle import BundleProvider
from muster.components.queues import Priorities, PrioritiesArgs, Queues, QueuesArgs

cluster = pulumi.StackReference(pulumi.Config().require("clusterStack"))
provider = BundleProvider(
    "cluster",
    kubeconfig=cluster.require_output("kubeconfig"),
    context=cluster.require_output("context"),
)
stack = config.load(Path("teams.yaml"))
priorities = Priorities("priorities", PrioritiesArgs(stack=stack, provider=provider))
queues = Queues(
    "queues",
    QueuesArgs(stack=stack, provider=provider),
    opts=pulumi.ResourceOptions(depends_on=priorities.classes),
)

pulumi.export("queueNames", queues.queue_names)
