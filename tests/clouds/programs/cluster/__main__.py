"""The cloud half of the project's own program, for tests that need no API server: CLUSTER_STACK is the stack
file.
"""

import os
from pathlib import Path

import pulumi

import stackconfig
from components import interrupts
from components.clusters.cluster import cluster_of
from components.guard import guard
from components.identities import Identities
from components.origin import tell_origins

interrupts.go_quietly()
source = Path(os.environ["CLUSTER_STACK"])
stack = stackconfig.load(source)
tell_origins(stack, source)
cluster = cluster_of(stack, opts=pulumi.ResourceOptions())
assert isinstance(cluster, pulumi.Resource)
guard(stack.cluster, cluster, Identities("identities", stack=stack, cloud=cluster.cloud))
