"""Which component makes or finds the cluster that a stack describes."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from muster.components.bundle import BundleProvider
from muster.components.clusters.cloud import Cloud, Provisioning
from muster.components.component import Component
from muster.errors import MusterError
from muster.kubernetes.kubeconfig import (
    CERTIFICATES,
    KubeconfigError,
    kubectl_files,
    read_merged,
    read_named,
)
from muster.model.clusters import Access, EksCluster, GkeCluster
from muster.model.clusters import ExistingCluster as Existing
from muster.model.identities import access_entries, google_security_group
from muster.model.stack import Stack

if TYPE_CHECKING:
    from muster.components.clusters.eks import ExistingVpcArgs
    from muster.components.clusters.gke import ExistingNetworkArgs

# A cluster that Muster did not make: reached by a kubeconfig, never changed as a cluster.
# Reads the kubeconfig and nothing of the cluster.


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingClusterArgs:
    """How the cluster is reached. Give the text of a `kubeconfig`, or let it be read from this machine.

    `cluster_name`: what outputs call the cluster. Nothing is looked up by it.

    `kubeconfig`: text of a kubeconfig, such as the output of another program. It is kept as a secret. A new
    endpoint or credential of the same cluster changes nothing in it; another cluster replaces everything that
    is installed.

    `context`: a context of the kubeconfig. None takes its current context; where no `kubeconfig` and no
    `kubeconfig_file` is given, a context is required, so that a change of kubectl's current context never
    moves the platform to another cluster.

    `kubeconfig_file`: path of a file on this machine. None takes the files that kubectl would take.
    """

    cluster_name: pulumi.Input[str]
    kubeconfig: pulumi.Input[str] | None = None
    context: pulumi.Input[str] | None = None
    kubeconfig_file: str | None = None


class ExistingCluster(Component):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    Outputs: `name`, `context`, `kubeconfigCommand`.
    """

    def __init__(
        self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:clusters:Existing", name, opts)
        self.cloud: Cloud | None = None
        self.provisioning: Provisioning | None = None
        kubeconfig, context = _reached(args)
        child = self.child_options()
        self.kubernetes = kubernetes.Provider(
            f"{name}-kubernetes", kubeconfig=kubeconfig, context=context, opts=child
        )
        self.bundles = BundleProvider(f"{name}-bundles", kubeconfig=kubeconfig, context=context, opts=child)
        self.outputs: dict[str, pulumi.Input[object]] = {
            "name": args.cluster_name,
            "context": context,
            "kubeconfigCommand": pulumi.Output.concat("kubectl config use-context ", context),
        }
        self.register_outputs(self.outputs)


def _reached(args: ExistingClusterArgs) -> tuple[pulumi.Output[str], pulumi.Input[str]]:
    """The kubeconfig, as a secret, and the context in it."""
    if args.kubeconfig is not None:
        kubeconfig = pulumi.Output.secret(args.kubeconfig)
        if args.context is not None:
            return kubeconfig, args.context
        return kubeconfig, pulumi.Output.unsecret(kubeconfig.apply(_current_context))
    if args.context is not None and not isinstance(args.context, str):
        raise MusterError(
            "ExistingClusterArgs.context comes from another resource, but there is no kubeconfig: a context "
            "is looked up in a file on this machine before any resource exists.",
            fix="give the text of a kubeconfig, or a context that is a plain string.",
        )
    config, context = kubeconfig_of(
        args.context, file=args.kubeconfig_file, stack_path="muster:cluster.context"
    )
    return pulumi.Output.secret(config), context


def _current_context(kubeconfig: str) -> str:
    config = yaml.safe_load(kubeconfig)
    context = config.get("current-context") if isinstance(config, dict) else None
    if not context:
        raise MusterError(
            "ExistingClusterArgs.kubeconfig names no current context.", fix="name one with `context`."
        )
    return str(context)


def kubeconfig_of(context: str | None, *, file: str | None = None, stack_path: str) -> tuple[str, str]:
    """A kubeconfig with this one context and nothing beside it, so that another context's change is no change
    here; and the context's name. Without a name it is the current one of `file`. KubeconfigError where the
    context does not exist.
    """
    files = kubectl_files() if file is None else [p for p in [Path(file).expanduser()] if p.is_file()]
    merged = read_merged(files)
    context = context or (merged.get("current-context") if file else None)
    found = {
        section: {each["name"]: each for each in merged.get(section) or ()}
        for section in ("contexts", "clusters", "users")
    }
    if context is None or context not in found["contexts"]:
        raise _missing(context or "", found["contexts"], files, stack_path)
    chosen = found["contexts"][context]
    parts = {
        "contexts": chosen,
        "clusters": found["clusters"].get(chosen["context"].get("cluster")),
        "users": found["users"].get(chosen["context"].get("user")),
    }
    entries = {section: [_inlined(entry)] for section, entry in parts.items() if entry is not None}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": context, **entries}
    return json.dumps(config), context


def _missing(
    context: str, contexts: Mapping[str, Any], files: list[Path], stack_path: str
) -> KubeconfigError:
    fix = "set KUBECONFIG to the file of the cluster."
    if not files:
        return KubeconfigError(
            f"{stack_path}: no kubeconfig was found: $KUBECONFIG names no file, and ~/.kube/config does not "
            "exist.",
            fix=fix,
        )
    what = f"there is no context {context!r}" if context else "no context is given"
    names = ", ".join(sorted(contexts))
    return KubeconfigError(
        f"{stack_path}: {what}; {', '.join(map(str, files))} has {names or 'none'}.",
        fix=f"write one of them, or {fix}" if names else fix,
    )


def _inlined(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Certificates by content instead of by path: the providers run elsewhere, and paths differ between
    machines.
    """
    kind = next(key for key in entry if key != "name")
    body = dict(entry[kind])
    for field in CERTIFICATES:
        if body.get(field):
            data = read_named(Path(body.pop(field)))
            body[f"{field}-data"] = base64.b64encode(data).decode()
    return {"name": entry["name"], kind: body}


class MadeCluster(Protocol):
    """What everything in a cluster knows of it: the providers that install into it, what it exports, and its
    cloud, None for a cluster that Muster did not make. `provisioning`: None where nodes need no objects.
    """

    kubernetes: kubernetes.Provider
    bundles: BundleProvider
    cloud: Cloud | None
    provisioning: Provisioning | None
    outputs: dict[str, pulumi.Input[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInputs:
    """Values of a stack's cluster that come from other resources of the program. Each takes the place of the
    setting in the stack; one that the stack's provider does not have is refused.

    `network` (GKE) and `vpc` (EKS): an existing network. None makes one.
    `kms_key` (GKE, EKS): the key that encrypts Secrets. On EKS another key replaces the cluster.
    `node_service_account` (GKE): email of an existing account, which Muster then grants nothing.
    `kubeconfig`, `context` (existing): text of a kubeconfig, and the context in it; None: its current one.
    """

    network: "ExistingNetworkArgs | None" = None
    vpc: "ExistingVpcArgs | None" = None
    kms_key: pulumi.Input[str] | None = None
    node_service_account: pulumi.Input[str] | None = None
    kubeconfig: pulumi.Input[str] | None = None
    context: pulumi.Input[str] | None = None

    def refuse_all_but(self, *known: str, provider: str) -> None:
        """MusterError where a value is given that a cluster of this provider does not take."""
        given = {
            "network": self.network,
            "vpc": self.vpc,
            "kms_key": self.kms_key,
            "node_service_account": self.node_service_account,
            "kubeconfig": self.kubeconfig,
            "context": self.context,
        }
        wrong = [name for name, value in given.items() if value is not None and name not in known]
        if wrong:
            raise MusterError(
                f"ClusterInputs: {', '.join(wrong)}: a cluster of provider {provider} does not take it.",
                fix=f"leave it out; {provider} takes {', '.join(known)}.",
            )


def cluster_of(
    stack: Stack,
    *,
    name: str | None = None,
    inputs: ClusterInputs | None = None,
    opts: pulumi.ResourceOptions,
) -> MadeCluster:
    """Make or reach the cluster that a stack describes. `name`: of the component, else the cluster's own.

    A cloud's SDK takes a second to import, so only the one that the stack uses is imported.
    """
    described, given = stack.cluster, inputs or ClusterInputs()
    name = name or described.name
    match described:
        case Existing():
            given.refuse_all_but("kubeconfig", "context", provider="existing")
            existing = ExistingClusterArgs(
                cluster_name=described.name,
                kubeconfig=given.kubeconfig,
                context=described.context if given.context is None else given.context,
                kubeconfig_file=described.kubeconfig,
            )
            return ExistingCluster(name, existing, opts=opts)
        case GkeCluster():
            from muster.components.clusters.gke import GkeGpuCluster, GkeGpuClusterArgs

            given.refuse_all_but("network", "kms_key", "node_service_account", provider="gke")
            google = GkeGpuClusterArgs(
                cluster=described,
                pools=stack.pools,
                security_group=google_security_group(stack),
                network=given.network,
                kms_key=given.kms_key,
                node_service_account=given.node_service_account,
            )
            return GkeGpuCluster(name, google, opts=opts)
        case EksCluster():
            from muster.components.clusters.eks import EksGpuCluster, EksGpuClusterArgs

            given.refuse_all_but("vpc", "kms_key", provider="eks")
            amazon = EksGpuClusterArgs(
                cluster=described,
                pools=stack.pools,
                access=_teams_access(stack),
                vpc=given.vpc,
                kms_key=given.kms_key,
            )
            return EksGpuCluster(name, amazon, opts=opts)


def _teams_access(stack: Stack) -> dict[str, Access]:
    """The members of teams that are IAM principals, each under a name that stays when others come and go."""
    return {
        f"member-{sha256(entry.principal.encode()).hexdigest()[:8]}": Access(
            principal=entry.principal, groups=entry.groups
        )
        for entry in access_entries(stack)
    }
