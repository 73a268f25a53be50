"""The queues and priorities of the stack file in SWITCH_STACK, for the cluster of SWITCH_KUBECONFIG."""

import os
from pathlib import Path

import pulumi

from components.bundle import BundleProvider
from components.priorities import Priorities
from components.queues import Queues
from stackconfig import load

stack = load(os.environ["SWITCH_STACK"])
kubeconfig = pulumi.Output.secret(Path(os.environ["SWITCH_KUBECONFIG"]).read_text())
provider = BundleProvider("bundles", kubeconfig=kubeconfig, context="bare")
priorities = Priorities("priorities", stack=stack, provider=provider, depends_on=[])
queues = Queues("queues", stack=stack, provider=provider, depends_on=[*priorities.classes])
