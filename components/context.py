"""Inputs shared by all components in a cluster: the stack, its artifacts, resource sizing and the two
providers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi.runtime.proto import engine_pb2
from pulumi.runtime.settings import get_engine

from muster.artifacts import resolved
from muster.artifacts.resolved import Artifacts
from muster.components.bundle import BundleProvider
from muster.components.clusters.cloud import Cloud
from muster.components.clusters.cluster import MadeCluster
from muster.components.component import Component
from muster.components.gang_pods import Sizing, sizing_of
from muster.config.document import Document
from muster.config.project import load_document
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.render.manifest import Manifest

# One Kubernetes object as one resource of the Kubernetes provider, from its manifest.
# The SDK's own classes register the same resources; they want each field in Python's spelling and cost a
# second of imports in every preview. A manifest is what the model renders, the documentation shows and
# `kubectl` prints.


class KubernetesObject(pulumi.CustomResource):
    """Applied by the server; a Deployment is done when it is rolled out. Its type is the manifest's."""

    def __init__(self, name: str, manifest: Manifest, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__(token(manifest), name, dict[str, Any](manifest), opts)


def child(
    parent: Component,
    body: Manifest,
    *,
    provider: kubernetes.Provider,
    after: Sequence[pulumi.Resource] | None = None,
    replaced_with: str = "",
) -> KubernetesObject:
    """The object `body` as a child of `parent`, named after the object and its kind. `replaced_with`: an
    annotation; when it changes, the object is deleted and created again.
    """
    name = parent.child_name(f"{body['metadata']['name']}-{body['kind'].lower()}")
    opts = parent.child_options(provider=provider, after=after)
    if replaced_with:
        opts.replace_on_changes = [f'metadata.annotations["{replaced_with}"]']
        opts.delete_before_replace = True
    return KubernetesObject(name, body, opts=opts)


def token(manifest: Manifest) -> str:
    """The provider's name for a kind: `kubernetes:apps/v1:Deployment`; the group without a name is `core`."""
    api_version = manifest["apiVersion"]
    full = api_version if "/" in api_version else f"core/{api_version}"
    return f"kubernetes:{full}:{manifest['kind']}"


# Logs which line of the stack file defines a cloud resource that is being made.
# A cloud's error names its own resource and knows nothing of the stack file. The engine shows a resource's
# log lines beside its error, so the line is logged before the cloud can refuse. Only for what is bought,
# clusters and pools, and only when they change.

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
    return {pool.name, *stack.cluster.group_names(pool)}


def place(path: str, document: Document) -> str:
    """`stacks/Pulumi.prod.yaml:14: muster:pools.h100`"""
    source, line = document.place(path)
    return f"{source}: {path}" if line is None else f"{source}:{line}: {path}"


def _log(urn: str, message: str) -> None:
    """`pulumi.log.info` for a URN: it takes a resource and waits for its URN, which comes after this."""
    engine = get_engine()
    if engine is not None:
        engine.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message, urn=urn))


# Identities: what each team's pods are in the cluster's cloud, and so which buckets they reach.
# A team's identity has the team's name and not its department's: a team that moves keeps it.

_TYPE: Final = "muster:index:Identities"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitiesArgs:
    """`stack`: its teams with their `access`, and its cluster. A team without identity or buckets gets
    nothing.

    `cloud`: the cloud's provider and the control plane (`cloud` of a cluster component). None makes nothing,
    and pods that expect a cloud identity then have none.
    """

    stack: Stack
    cloud: Cloud | None


class Identities(Component):
    """`of_teams` maps each team to what has to exist before its pods; a team without one has no entry."""

    def __init__(self, name: str, args: IdentitiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_TYPE, name, opts, short_name="identities")
        found: dict[str, Sequence[pulumi.Resource]] = {}
        if args.cloud is not None:
            waits = pulumi.ResourceOptions(depends_on=[args.cloud.control_plane])
            child = pulumi.ResourceOptions.merge(self.child_options(provider=args.cloud.provider), waits)
            prefix = self.child_name(args.stack.cluster.name)
            make = args.cloud.team_identity
            found = {team.name: make(team, prefix=prefix, opts=child) for _, team in args.stack.teams()}
        self.of_teams: Mapping[str, Sequence[pulumi.Resource]] = {
            team: made for team, made in found.items() if made
        }
        self.register_outputs({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformContext:
    """Where and how a component is installed. `PlatformContext.of` fills in what follows from the others.

    `stack`: the description that the component is rendered from.
    `artifacts`: the charts, CRDs and images that it is installed from.
    `sizing`: requests, limits, replicas and the node pool of the control plane's pods.
    `provider`: makes objects one by one and Helm releases; `bundles`: makes many objects as one resource.
    Both have to reach the same cluster. Another cluster behind them replaces everything that was made with
    them.
    """

    stack: Stack
    artifacts: Artifacts
    sizing: Sizing
    provider: kubernetes.Provider
    bundles: BundleProvider

    @classmethod
    def of(
        cls,
        stack: Stack,
        cluster: MadeCluster,
        *,
        artifacts: Artifacts | None = None,
        sizing: Sizing | None = None,
    ) -> "PlatformContext":
        """The context of a cluster component. Artifacts and sizing follow from the stack unless they are
        given.
        """
        return cls(
            stack=stack,
            artifacts=artifacts or resolved.resolve_artifacts(stack, name=pulumi.get_stack()),
            sizing=sizing or sizing_of(stack),
            provider=cluster.kubernetes,
            bundles=cluster.bundles,
        )
