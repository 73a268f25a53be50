"""The cloud half of the project's own program, for tests that need no API server: CLUSTER_STACK is the stack
file.
"""

import os
from pathlib import Path

import pulumi

from muster import config
from muster.components import interrupts
from muster.components.clusters.cluster import cluster_of
from muster.components.context import Identities, IdentitiesArgs, log_source_lines
from muster.components.program import deletion_guard

interrupts.go_quietly()
source = Path(os.environ["CLUSTER_STACK"])
stack = config.load(source)
log_source_lines(stack, source)
cluster = cluster_of(stack, opts=pulumi.ResourceOptions())
assert isinstance(cluster, pulumi.Resource)
deletion_guard(
    stack.cluster, cluster, Identities("identities", IdentitiesArgs(stack=stack, cloud=cluster.cloud))
)
