"""The cloud of a cluster that Muster made, and how a program reaches the cluster: a kubeconfig, and the
providers that use it.

The kubeconfig holds no credential: it names the cloud's own plugin, which asks for a token with the
credentials of the user who runs it. It is a secret all the same, because it holds the address of the control
plane.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pulumi
import pulumi_kubernetes as kubernetes

from muster.components.bundle import BundleProvider
from muster.model.identities import Bound
from muster.model.queues import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """`provider` reaches the cluster's own project or account. `control_plane` exists before anything that is
    made with it. `team_identity` makes what has to exist before a team's pods, under names that begin with
    `prefix`; nothing for a team without an identity.
    """

    provider: pulumi.ProviderResource
    control_plane: pulumi.Resource
    team_identity: "TeamIdentity"


class TeamIdentity(Protocol):
    def __call__(
        self, team: Team, *, prefix: str, opts: pulumi.ResourceOptions
    ) -> Sequence[pulumi.Resource]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """Nodes that something in the cluster launches (Karpenter, or EKS Auto Mode) from objects of its API.

    `objects`: those objects, as the text of a Bundle. `queue`: the name of the queue on which the cloud
    announces that it takes a machine away; None where the cloud itself is what launches.
    """

    objects: pulumi.Output[str]
    queue: pulumi.Output[str] | None


# Installed beside `kubectl`: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
_EXEC = "client.authentication.k8s.io/v1beta1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A program on PATH that issues tokens, and the hint to print where it is missing."""

    command: str
    arguments: tuple[str, ...] = ()
    hint: str

    def user(self) -> dict[str, object]:
        call: dict[str, object] = {
            "apiVersion": _EXEC,
            "command": self.command,
            "installHint": self.hint,
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
        return {"exec": call | ({"args": list(self.arguments)} if self.arguments else {})}


def kubeconfig(
    context: str, *, endpoint: pulumi.Output[str], authority: pulumi.Output[str] | None, plugin: Plugin
) -> pulumi.Output[str]:
    """`endpoint`: an address or an `https://` URL; `authority`: the certificate authority in base64, None for
    one that every machine trusts.
    """

    def text(values: list[str]) -> str:
        server = values[0] if values[0].startswith("https://") else f"https://{values[0]}"
        cluster = {"server": server} | ({"certificate-authority-data": values[1]} if values[1] else {})
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": context,
                "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
                "clusters": [{"name": context, "cluster": cluster}],
                "users": [{"name": context, "user": plugin.user()}],
            }
        )

    return pulumi.Output.secret(pulumi.Output.all(endpoint, authority or "").apply(text))


def providers(
    name: str,
    *,
    kubeconfig: pulumi.Output[str],
    context: str,
    identifier: pulumi.Output[str] | None = None,
    after: list[pulumi.Resource],
    parent: pulumi.Resource,
) -> tuple[kubernetes.Provider, BundleProvider]:
    """The providers of everything that is installed. `identifier`: what another cluster has another of; where
    it stays, an address that changes replaces nothing. `after`: nodes that have to be there first, and that
    stay until everything installed is gone.
    """
    child = pulumi.ResourceOptions(parent=parent, depends_on=after)
    return (
        kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=kubeconfig,
            context=context,
            cluster_identifier=identifier,
            opts=child,
        ),
        BundleProvider(f"{name}-bundles", kubeconfig=kubeconfig, context=context, opts=child),
    )


def renamed(team: str, bound: Bound, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """The options of a binding, with its former name, which begins with `team` as well. Without it the engine
    would make the binding under its new name and then delete it under the old one: pods would have none.
    """
    if bound.formerly is None:
        return opts
    former = pulumi.Alias(name=f"{team}{bound.formerly}")
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[former]))
