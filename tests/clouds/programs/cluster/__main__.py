"""The cloud half of the project's own program, for tests that need no API server: CLUSTER_STACK is the stack
file.
"""

import os
from pathlib import Path

import pulumi

from muster import config
from muster.components import interrupts
from muster.components.clusters.cluster import cluster_of
from muster.components.deletion_guard import guard
from muster.components.identities import Identities
from muster.components.source_hints import tell_origins

interrupts.go_quietly()
source = Path(os.environ["CLUSTER_STACK"])
stack = config.load(source)
tell_origins(stack, source)
cluster = cluster_of(stack, opts=pulumi.ResourceOptions())
assert isinstance(cluster, pulumi.Resource)
guard(stack.cluster, cluster, Identities("identities", stack=stack, cloud=cluster.cloud))
