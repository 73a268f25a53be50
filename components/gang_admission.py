"""The gang-admission controller: namespace, priority, identity, rights, its two Deployments, its policy and
certificates.

The image is one, `manager` and `webhooks` are its two programs. Certificates are made by the webhook program
itself: a Secret that it creates and the caBundle that it writes into its own configuration. The
AdmissionCheck is a queue object (`queues.py`); the GangPolicy that it refers to is here.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from muster.components import gang_authority as authority
from muster.components import gang_pods as pods
from muster.components.bundle import Bundle, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext, child
from muster.model import names
from muster.model.clusters import Cluster, EksCluster, GkeCluster, Provider
from muster.model.names import FIELD_MANAGER
from muster.model.stack import Stack
from muster.model.work import GATED, RAY, WorkKind, by_group
from muster.render import gang, observability, queuetree
from muster.render.manifest import Manifest, manifest
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, SYSTEM

# The repository that holds the stack's controller image.
# It depends on nothing: the image has to be pushed before the cluster can run it. `muster image push` makes
# the repository and nothing else (MUSTER_STEP and a target).

NAME: Final = "image-repository"
# Set for a run that makes the repository alone. Such a run has to be targeted, or it deletes everything else.
STEP_VARIABLE: Final = "MUSTER_STEP"
STEP: Final = "image-repository"
# A repository keeps its key for life. Another key would mean another repository, and the image that the
# cluster runs would be deleted with the first one (Artifact Registry), or the deletion be refused (ECR).
_KEPT: Final = {Provider.GKE: ["kmsKeyName"], Provider.EKS: ["encryptionConfigurations"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRepositoryArgs:
    """`cluster`: the repository's project or account, region, labels and key are the cluster's. Another
    region or project is another repository: the image has to be pushed there again.
    """

    cluster: GkeCluster | EksCluster


class ImageRepository(Component):
    """`url`: `host/path` of the image, without tag or digest."""

    def __init__(
        self, name: str, args: ImageRepositoryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ImageRepository", name, opts)
        cluster = args.cluster
        kept = pulumi.ResourceOptions(ignore_changes=_KEPT[cluster.provider])
        child = pulumi.ResourceOptions.merge(self.child_options(), kept)
        self.url: pulumi.Output[str] = (
            _artifact_registry(name, cluster, child)
            if isinstance(cluster, GkeCluster)
            else _ecr(name, cluster, child)
        )
        self.register_outputs({"url": self.url})


def is_step() -> bool:
    """Whether this run makes the repository alone."""
    return os.environ.get(STEP_VARIABLE) == STEP


def image_repository(cluster: Cluster) -> ImageRepository | None:
    """None for a cluster that Muster did not make: its registry is not Muster's either."""
    if not isinstance(cluster, GkeCluster | EksCluster):
        return None
    return ImageRepository(NAME, ImageRepositoryArgs(cluster=cluster))


def _artifact_registry(name: str, cluster: GkeCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_gcp as gcp  # loaded where it is used: it takes seconds

    made = gcp.artifactregistry.Repository(
        name,
        repository_id=cluster.repository_id,
        location=cluster.region,
        project=cluster.project,
        format="DOCKER",
        description=f"Images of Muster for cluster {cluster.name}",
        # A tag never moves: what ran can be found again.
        docker_config={"immutable_tags": True},
        kms_key_name=cluster.kms_key,
        labels=dict(cluster.labels),
        opts=opts,
    )
    # Known before it is made, but of no use before.
    known: pulumi.Output[str] = made.id.apply(lambda _: cluster.image_address())
    return known


def _ecr(name: str, cluster: EksCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_aws as aws

    kind = "KMS" if cluster.kms_key else "AES256"
    made = aws.ecr.Repository(
        name,
        name=cluster.repository_id,
        region=cluster.region,
        image_tag_mutability="IMMUTABLE",
        image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
        encryption_configurations=[
            aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type=kind, kms_key=cluster.kms_key)
        ],
        tags={**cluster.tags, "managed-by": FIELD_MANAGER.partition(".")[0]},
        opts=opts,
    )
    url: pulumi.Output[str] = made.repository_url
    return url


# Which objects the API server shows to the controller before it stores them.
# Only work in namespaces of teams is reviewed, when it is created and when its spec is changed; what the
# cluster's own controllers change is not. Without an answer the object passes: the policies, which need no
# process, refuse what could run beside its queue, and what is larger than its nodes or its queue waits. So
# no webhook of Muster can block work or the cluster itself. The rules are the controller's.

_TIMEOUT_SECONDS: Final = 5


def validating(stack: Stack) -> list[Manifest]:
    """The webhooks of our ValidatingWebhookConfiguration; the controller adds its own caBundle to each."""
    work = [each for each in stack.judged_work if each.is_for_members]
    return [*(_webhook(each) for each in work), *(_changed(each) for each in work)]


def _changed(work: WorkKind) -> Manifest:
    webhook = _webhook(work)
    webhook["rules"][0]["operations"] = ["UPDATE"]
    webhook["matchConditions"] = [
        {"name": "not-by-the-system", "expression": f"!({SYSTEM})"},
        {"name": "of-its-spec", "expression": "object.spec != oldObject.spec"},
    ]
    return webhook | {"name": f"{work.kind.lower()}-changed.{names.GROUP}"}


def mutating(stack: Stack) -> list[Manifest]:
    """The webhooks of our MutatingWebhookConfiguration. Without an answer the object goes on as it is, and
    the policies refuse what then lacks a queue or a gate.
    """
    found = []
    made = {each.makes for each in stack.work_kinds} if stack.is_gated else ()
    for work, webhook in (
        *((each, _webhook(each)) for each in stack.judged_work if each.is_queued),
        *((each, _made(each)) for each in GATED if each.family in made),
        # Whose pod templates can change after they were created.
        *((each, _changed(each)) for each in (*RAY, *(each for each in stack.gated_work if each.serves))),
    ):
        webhook["clientConfig"]["service"]["path"] = f"/default-{work.kind.lower()}"
        # Kueue's webhooks may come after ours and before: what they add can be looked at again.
        found.append(webhook | {"name": f"default-{webhook['name']}", "reinvocationPolicy": "IfNeeded"})
    return found


def _made(work: WorkKind) -> Manifest:
    """With KAI, of what is made of work that has its templates elsewhere: its pods wait at the gate."""
    made = [{"name": "made-for-work", "expression": MADE_FOR_WORK}]
    return _webhook(work) | {"name": f"{work.kind.lower()}-made.{names.GROUP}", "matchConditions": made}


def _webhook(work: WorkKind) -> Manifest:
    kind = work.kind.lower()
    service = {
        "name": authority.WEBHOOKS,
        "namespace": names.SYSTEM_NAMESPACE,
        "path": f"/validate-{kind}",
        "port": 443,
    }
    return {
        "name": f"{kind}.{names.GROUP}",
        "clientConfig": {"service": service},
        "rules": [
            {
                "apiGroups": [work.group],
                "apiVersions": [work.version],
                "resources": [work.resource],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]},
        "objectSelector": {},
        # The object that this one was made for has been reviewed.
        "matchConditions": [{"name": "not-made-for-work", "expression": f"!({MADE_FOR_WORK})"}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


_RBAC = "rbac.authorization.k8s.io"

# The certificate keeper holds a field of every webhook. One that were only taken out of the list would stay
# there as that field alone, which the API server refuses: with another list the configuration is created
# again.
_LISTED = f"{names.GROUP}/webhooks"

# Pod Security: what the two programs keep to anyway, so that nothing else slips in beside them.
_RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAdmissionArgs:
    """`context`: the cluster, and the stack whose `gangAdmission` section becomes the GangPolicy.

    `image`: of the controller, by digest, when it comes from another resource (a build in the same program,
    for example). None takes the image of the context's artifacts. Another image rolls both programs, one pod
    after the other; no gang loses its capacity meanwhile.

    The scheduler's CRDs have to be served before its manager starts: name the scheduler in `opts.depends_on`.
    """

    context: PlatformContext
    image: pulumi.Input[str] | None = None


class GangAdmission(Component):
    """`serving`: depend on these and gangs are admitted. The policy exists before the manager starts."""

    def __init__(
        self, name: str, args: GangAdmissionArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:GangAdmission", name, opts, short_name="gang-admission")
        context = args.context
        self._context, stack, sizing = context, context.stack, context.sizing
        image = context.artifacts.image("gang-admission") if args.image is None else args.image
        pause = context.artifacts.image("pause") if gang.makes_pods(stack) else ""
        self.policy = Bundle(
            f"{name}-policy",
            manifests={
                names.GANG_POLICY: text([gang.policy(stack, placeholder_image=pause)]),
                "queues": text([queuetree.tree(stack)]),
            },
            opts=self.child_options(provider=context.bundles),
        )
        self.namespace = self._object(manifest("v1", "Namespace", names.SYSTEM_NAMESPACE, labels=_RESTRICTED))
        self.priority = self._object(pods.priority())
        self.configurations = self._webhook_configurations()
        self.manager = self._program(
            authority.MANAGER,
            pods.manager(image, sizing, stack),
            cluster_rules=authority.manager_cluster_rules(
                stack.scheduler,
                holds=gang.holds(stack),
                deletes_without_quota=stack.deletes_without_quota,
                makes_domains=stack.makes_compute_domains,
                stops_idle=by_group(
                    each for each in stack.work_kinds if each.is_queued and stack.stops_idle_gangs
                ),
                gated=stack.gated_work,
            ),
            rules=authority.manager_rules(),
            # Ready means that its CA is in the configurations: reviews work once the webhooks are, too.
            after=[
                self.policy,
                self.priority,
                *self.configurations,
                *self._placeholders(),
                *self._broken_nodes(),
            ],
        )
        self._object(
            observability.reach(
                stack,
                authority.PROGRAM,
                namespace=names.SYSTEM_NAMESPACE,
                selector=pods.BOTH,
                metrics=pods.HEALTH_PORT_NAME,
                open_to_all=[pods.WEBHOOK_PORT_NAME],
            ),
            after=[self.namespace],
        )
        self.webhooks = self._program(
            authority.WEBHOOKS,
            pods.webhooks(image, sizing, stack.observability),
            cluster_rules=authority.webhook_cluster_rules(),
            rules=authority.webhook_rules(),
            after=[self.policy, self.priority],
        )
        self.serving: list[pulumi.Resource] = [self.manager, self.webhooks]
        self.register_outputs({})

    def _placeholders(self) -> list[pulumi.Resource]:
        """Where the pods live that bring a gang's nodes, and the rights that they need. Each right is a
        resource of its own: an `up` without placeholders takes it at its end, when the manager has removed
        its taints.
        """
        if not self._context.stack.placeholder_pools:
            return []
        space, manager = names.PLACEHOLDER_NAMESPACE, f"muster-{authority.MANAGER}"
        namespace = self._object(manifest("v1", "Namespace", space, labels=_RESTRICTED))
        return [
            self._object(pods.placeholder_quota(), after=[namespace]),
            self._object(pods.placeholder_priority()),
            # Not the manager's name: its Role in its own namespace is a resource of that name already.
            self._grant(space, authority.placeholder_rules(), namespace=space, after=[namespace]),
            # Karpenter's Events about NodeClaims, which have no namespace, are in this one.
            self._grant(f"{manager}-events", authority.event_rules(), namespace="default"),
            self._grant(f"{manager}-taints", authority.taint_rules()),
        ]

    def _broken_nodes(self) -> list[pulumi.Resource]:
        """The right to set nodes aside, beside that of placeholders: an `up` takes each alone."""
        if not self._context.stack.closes_nodes:
            return []
        return [self._grant("muster-broken-nodes", authority.broken_node_rules())]

    def _grant(
        self,
        name: str,
        rules: list[authority.Rule],
        *,
        namespace: str | None = None,
        after: Sequence[pulumi.Resource] | None = None,
    ) -> pulumi.Resource:
        """A role of the manager and its binding; without a namespace for the whole cluster."""
        kind = "Role" if namespace else "ClusterRole"
        role = manifest(f"{_RBAC}/v1", kind, name, namespace=namespace, rules=rules)
        bound = _binding(kind, name, authority.MANAGER)
        binding = manifest(f"{_RBAC}/v1", f"{kind}Binding", name, namespace=namespace, **bound)
        return self._object(binding, after=[self._object(role, after=after)])

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
            # Pods that are not ready answer no request: without this, two of them block a drain.
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
                # A role grants nothing before it is bound: no edge for it, which the engine would walk.
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
                ("ValidatingWebhookConfiguration", validating(self._context.stack)),
                ("MutatingWebhookConfiguration", mutating(self._context.stack)),
            )
        ]

    def _object(
        self, body: Manifest, *, after: Sequence[pulumi.Resource] | None = None, replaced_with: str = ""
    ) -> KubernetesObject:
        return child(self, body, provider=self._context.provider, after=after, replaced_with=replaced_with)


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
