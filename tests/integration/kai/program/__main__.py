"""The queues and priorities of the stack file in SWITCH_STACK, for the cluster of SWITCH_KUBECONFIG."""

import os
from pathlib import Path

import pulumi

from muster.components.bundle import BundleProvider
from muster.components.queues import Priorities, PrioritiesArgs, Queues, QueuesArgs
from muster.config import load

stack = load(os.environ["SWITCH_STACK"])
kubeconfig = pulumi.Output.secret(Path(os.environ["SWITCH_KUBECONFIG"]).read_text())
provider = BundleProvider("bundles", kubeconfig=kubeconfig, context="bare")
priorities = Priorities("priorities", PrioritiesArgs(stack=stack, provider=provider))
queues = Queues(
    "queues",
    QueuesArgs(stack=stack, provider=provider),
    opts=pulumi.ResourceOptions(depends_on=[*priorities.classes]),
)
