"""The queues and priorities of the stack file in SWITCH_STACK, for the cluster of SWITCH_KUBECONFIG."""

import os
from pathlib import Path

import pulumi

from muster.components.bundle import BundleProvider
from muster.components.priorities import Priorities
from muster.components.queues import Queues
from muster.config import load

stack = load(os.environ["SWITCH_STACK"])
kubeconfig = pulumi.Output.secret(Path(os.environ["SWITCH_KUBECONFIG"]).read_text())
provider = BundleProvider("bundles", kubeconfig=kubeconfig, context="bare")
priorities = Priorities("priorities", stack=stack, provider=provider, depends_on=[])
queues = Queues("queues", stack=stack, provider=provider, depends_on=[*priorities.classes])
