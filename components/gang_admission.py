"""The gang-admission controller: namespace, priority, identity, rights, its two Deployments, its policy and
certificates.

The image is one, `manager` and `webhooks` are its two programs. Certificates are made by the webhook program
itself: a Secret that it creates and the caBundle that it writes into its own configuration. The
AdmissionCheck is a queue object (`queues.py`); the GangPolicy that it refers to is here.
"""

from collections.abc import Sequence
from typing import Any

import pulumi

from muster.components import gang_authority as authority
from muster.components import gang_pods as pods
from muster.components import gang_webhooks
from muster.components.bundle import Bundle, text
from muster.components.context import Ground
from muster.components.objects import KubernetesObject, child
from muster.model import names
from muster.render import gang, observability, queuetree
from muster.render.manifest import Manifest, manifest

_RBAC = "rbac.authorization.k8s.io"

# The certificate keeper holds a field of every webhook. One that were only taken out of the list would stay
# there as that field alone, which the API server refuses: with another list the configuration is made anew.
_LISTED = f"{names.GROUP}/webhooks"

# Pod Security: what the two programs keep to anyway, so that nothing else slips in beside them.
_RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}


class GangAdmission(pulumi.ComponentResource):
    """`serving`: depend on these and gangs are admitted. Its policy is there before its manager looks for
    it.
    """

    def __init__(
        self,
        name: str,
        *,
        ground: Ground,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:GangAdmission", name, None, opts)
        self._ground, stack, footprint = ground, ground.stack, ground.footprint
        image = ground.artifacts.image("gang-admission")
        pause = ground.artifacts.image("pause") if gang.holds(stack) else ""
        self.policy = Bundle(
            f"{name}-policy",
            manifests={
                names.GANG_POLICY: text([gang.policy(stack, placeholder_image=pause)]),
                "queues": text([queuetree.tree(stack)]),
            },
            opts=pulumi.ResourceOptions(parent=self, provider=ground.bundles, depends_on=depends_on),
        )
        self.namespace = self._object(
            manifest("v1", "Namespace", names.SYSTEM_NAMESPACE, labels=_RESTRICTED), after=depends_on
        )
        self.priority = self._object(pods.priority(), after=depends_on)
        self.manager = self._program(
            authority.MANAGER,
            pods.manager(image, footprint, stack.observability),
            cluster_rules=authority.manager_cluster_rules(stack.scheduler, holds=gang.holds(stack)),
            rules=authority.manager_rules(),
            after=[self.policy, self.priority],
        )
        self._object(
            observability.reach(
                stack,
                selector=pods.BOTH,
                metrics=pods.HEALTH_PORT_NAME,
                open_to_all=pods.WEBHOOK_PORT_NAME,
            ),
            after=[self.namespace],
        )
        self.configurations = self._webhook_configurations()
        self.webhooks = self._program(
            authority.WEBHOOKS,
            pods.webhooks(image, footprint, stack.observability),
            cluster_rules=authority.webhook_cluster_rules(),
            rules=authority.webhook_rules(),
            # Ready means that its authority stands in the configuration: reviews work from then on.
            after=[self.policy, self.priority, *self.configurations],
        )
        self.serving: list[pulumi.Resource] = [self.manager, self.webhooks]
        self.register_outputs({})

    def _program(
        self,
        name: str,
        spec: Manifest,
        *,
        cluster_rules: list[authority.Rule],
        rules: list[authority.Rule],
        after: list[pulumi.Resource],
    ) -> KubernetesObject:
        """One of the two programs: who it is, what it may do, and its pods."""
        account = self._object(_ours("v1", "ServiceAccount", name), after=[self.namespace])
        budget = {
            "maxUnavailable": 1,
            # Pods that are not ready serve nobody: without this, two of them keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pods.labels(name)},
        }
        self._object(_ours("policy/v1", "PodDisruptionBudget", name, spec=budget), after=[self.namespace])
        full = f"muster-{name}"
        cluster_role = manifest(f"{_RBAC}/v1", "ClusterRole", full, rules=cluster_rules)
        cluster_binding = manifest(
            f"{_RBAC}/v1", "ClusterRoleBinding", full, **_binding("ClusterRole", full, name)
        )
        role = _ours(f"{_RBAC}/v1", "Role", name, rules=rules)
        binding = _ours(f"{_RBAC}/v1", "RoleBinding", name, **_binding("Role", name, name))
        rights = [
            self._object(bind, after=[self._object(grant, after=before), account])
            for grant, bind, before in (
                (cluster_role, cluster_binding, []),
                (role, binding, [self.namespace]),
            )
        ]
        return self._object(_ours("apps/v1", "Deployment", name, spec=spec), after=[*rights, *after])

    def _webhook_configurations(self) -> list[pulumi.Resource]:
        """The Service that the API server calls, and the configuration that the program puts its authority
        into.
        """
        service = _ours(
            "v1",
            "Service",
            authority.WEBHOOKS,
            spec={
                "selector": pods.labels(authority.WEBHOOKS),
                "ports": [
                    {"name": "webhooks", "port": 443, "targetPort": pods.WEBHOOK_PORT_NAME, "protocol": "TCP"}
                ],
            },
        )
        # Its pods come after it: there is nothing to wait for.
        service["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
        serving = self._object(service, after=[self.namespace])
        return [
            self._object(_configuration(kind, webhooks), after=[serving], replaced_with=_LISTED)
            for kind, webhooks in (
                ("ValidatingWebhookConfiguration", gang_webhooks.validating()),
                ("MutatingWebhookConfiguration", gang_webhooks.mutating()),
            )
        ]

    def _object(
        self, body: Manifest, *, after: Sequence[pulumi.Resource], replaced_with: str = ""
    ) -> KubernetesObject:
        return child(self, body, provider=self._ground.provider, after=after, replaced_with=replaced_with)


def _ours(api_version: str, kind: str, name: str, **body: object) -> Manifest:
    return {**manifest(api_version, kind, name, namespace=names.SYSTEM_NAMESPACE), **body}


def _binding(kind: str, role: str, account: str) -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": names.SYSTEM_NAMESPACE}],
    }


def _configuration(kind: str, webhooks: list[Manifest]) -> Manifest:
    body = manifest("admissionregistration.k8s.io/v1", kind, authority.PROGRAM, webhooks=webhooks)
    body["metadata"]["annotations"] = {_LISTED: ",".join(webhook["name"] for webhook in webhooks)}
    return body
