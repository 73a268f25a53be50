"""The cluster half of the project's own program, for tests that need no API server: CLUSTER_STACK is the
stack file.
"""

import os

import pulumi
from components.clusters.cluster import cluster_of

import stackconfig

cluster_of(stackconfig.load(os.environ["CLUSTER_STACK"]), opts=pulumi.ResourceOptions())
