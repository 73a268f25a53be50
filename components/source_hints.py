"""Logs which line of the stack file defines a cloud resource that is being made.

A cloud's error names its own resource and knows nothing of the stack file. The engine shows a resource's log
lines beside its error, so the line is logged before the cloud can refuse. Only for what is bought, clusters
and pools, and only when they change.
"""

from pathlib import Path
from typing import Final

import pulumi
from pulumi.runtime.proto import engine_pb2
from pulumi.runtime.settings import get_engine

from muster.config.document import Document
from muster.config.project import load_document
from muster.model.clusters import EksCluster
from muster.model.node_groups import group_names
from muster.model.pools import Pool
from muster.model.stack import Stack

_CLUSTERS: Final = ("gcp:container/cluster:Cluster", "aws:eks/cluster:Cluster")
_POOLS: Final = (
    "gcp:container/nodePool:NodePool",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:ec2/launchTemplate:LaunchTemplate",
)


def log_source_lines(stack: Stack, source: Path) -> None:
    """Make every cluster and pool that the program registers from now on log its line of the stack file."""
    document = load_document(source) if source.is_file() else Document(str(source))

    def log_line(arguments: pulumi.ResourceHookArgs) -> None:
        path = path_of(stack, type_=arguments.type, name=arguments.name)
        if path is not None:
            _log(arguments.urn, f"defined at {place(path, document)}")

    hook = pulumi.ResourceHook("origin", log_line)

    def bind(arguments: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if arguments.type_ not in (*_CLUSTERS, *_POOLS):
            return None
        hooks = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
        opts = pulumi.ResourceOptions.merge(arguments.opts, pulumi.ResourceOptions(hooks=hooks))
        return pulumi.ResourceTransformationResult(props=arguments.props, opts=opts)

    pulumi.runtime.register_stack_transformation(bind)


def path_of(stack: Stack, *, type_: str, name: str) -> str | None:
    """The config path of a cluster's or pool's resource: `muster:cluster`, `muster:pools.h100`."""
    if type_ in _CLUSTERS:
        return "muster:cluster"
    if type_ not in _POOLS:
        return None
    named = name.removeprefix(f"{stack.cluster.name}-")
    pool = next((each.name for each in stack.pools if named in _names(each, stack)), None)
    # The system pool is a setting of the cluster.
    return "muster:cluster" if pool is None else f"muster:pools.{pool}"


def _names(pool: Pool, stack: Stack) -> set[str]:
    """What a pool's resources are named: after the pool, and on EKS after its groups."""
    cluster = stack.cluster
    groups = group_names(pool, cluster) if isinstance(cluster, EksCluster) else ()
    return {pool.name, *groups}


def place(path: str, document: Document) -> str:
    """`stacks/Pulumi.prod.yaml:14: muster:pools.h100`"""
    source, line = document.place(path)
    return f"{source}: {path}" if line is None else f"{source}:{line}: {path}"


def _log(urn: str, message: str) -> None:
    """`pulumi.log.info` for a URN: it takes a resource and waits for its URN, which comes after this."""
    engine = get_engine()
    if engine is not None:
        engine.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message, urn=urn))
