"""The few calls to a Kubernetes API that the stories need, on plain dictionaries.

Responsible for: timeouts, and which errors are retried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import httpx2
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.resource_registry import resource_registry
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.types import CascadeType, PatchType

from muster.errors import ExitCode, MusterError

Object = dict[str, Any]
Answer = TypeVar("Answer")

_NAMESPACED: Final = (
    ("ray.io", "v1", "RayJob", "rayjobs"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
    ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    ("autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests"),
)
_CLUSTER_WIDE: Final = (
    ("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues"),
    ("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors"),
    ("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks"),
    ("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts"),
    ("kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses"),
    ("kueue.x-k8s.io", "v1beta2", "ProvisioningRequestConfig", "provisioningrequestconfigs"),
    ("muster.dev", "v1alpha1", "GangPolicy", "gangpolicies"),
)
_VERSIONS: Final = {
    **{kind: f"{group}/{version}" for group, version, kind, _ in (*_NAMESPACED, *_CLUSTER_WIDE)},
    **dict.fromkeys(
        ("Namespace", "Node", "Pod", "PodTemplate", "ConfigMap", "ServiceAccount", "Service", "Event"), "v1"
    ),
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "Lease": "coordination.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
}
for _entry in _NAMESPACED:
    create_namespaced_resource(*_entry)
for _entry in _CLUSTER_WIDE:
    create_global_resource(*_entry)

FIELD_MANAGER: Final = "muster-examples"
# How long a call is tried again while the API server is away or restarts.
_PATIENCE: Final = 60.0
_PAUSE: Final = 1.0
# A quota over kinds that are new to the cluster: until kube-controller-manager has counted its objects, the
# API server refuses to create any. It learns of new kinds every 30 s and recounts every five minutes.
# `pulumi up` waits for that; quotas that came by another way are waited for here.
_NOT_COUNTED: Final = "status unknown for quota"
_COUNT_PATIENCE: Final = 360.0
# msgspec learns a class when it first decodes one, and crashes the process when two threads teach it at once.
# After a list the class is known, also to a watch.
_READING: Final = threading.Lock()


class UnreachableError(MusterError):
    """The API server does not answer, or there is no kubeconfig."""

    default_exit_code = ExitCode.OUTSIDE


class NotCountedError(UnreachableError):
    """kube-controller-manager has not counted a quota in time, so nothing can be created."""


def _no_message(_: str) -> None:
    pass


class Cluster:
    """One cluster, by the usual rules: KUBECONFIG, then ~/.kube/config. `say` gets a line for a long wait."""

    def __init__(self, kubeconfig: str | None = None, *, say: Callable[[str], None] = _no_message) -> None:
        self._say = say
        try:
            config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
            # Any: which overload of a call fits depends on the kind, which is a name here.
            self._client: Any = Client(config=config, field_manager=FIELD_MANAGER, trust_env=False)
        except Exception as error:  # the loader raises half a dozen kinds for the many ways to have none
            raise UnreachableError(
                f'kubeconfig: {error}. On the local cluster: eval "$(muster local env)"'
            ) from error

    def all(self, kind: str, *, namespace: str | None = None) -> list[Object]:
        """Every object of a kind; namespace None means everywhere. [] while the kind does not exist."""
        return self.listed(kind, namespace=namespace)[0]

    def listed(self, kind: str, *, namespace: str | None = None) -> tuple[list[Object], str]:
        """The same, and the version from which `watch` goes on."""
        scope = {} if kind in _GLOBAL else {"namespace": namespace or "*"}

        def call() -> tuple[list[Object], str]:
            with _READING:
                found = self._client.list(_kind(kind), **scope)
                return [_plain(one) for one in found], found.resourceVersion

        try:
            return self._tried(call)
        except ApiError as error:
            if error.response.status_code == 404:
                return [], "0"
            raise

    def get(self, kind: str, name: str, *, namespace: str | None = None) -> Object | None:
        scope = {"namespace": namespace} if namespace else {}
        try:
            return self._tried(lambda: _plain(self._client.get(_kind(kind), name, **scope)))
        except ApiError as error:
            if error.response.status_code == 404:
                return None
            raise

    def apply(self, manifest: Object) -> Object:
        """Server-side apply, as `kubectl apply --server-side --force-conflicts` does it."""
        resource = _kind(manifest["kind"])
        return self._tried(lambda: _plain(self._client.apply(resource.from_dict(manifest), force=True)))

    def patch(self, kind: str, name: str, change: Object, *, namespace: str | None = None) -> None:
        scope = {"namespace": namespace} if namespace else {}
        self._tried(
            lambda: self._client.patch(_kind(kind), name, change, patch_type=PatchType.MERGE, **scope)
        )

    def delete(self, kind: str, name: str, *, namespace: str | None = None, grace: int | None = None) -> None:
        """Ask for the deletion; an object that is gone already is fine. `grace` in seconds is for pods."""
        scope = {"namespace": namespace} if namespace else {}
        how = {"cascade": CascadeType.BACKGROUND, "grace_period": grace}
        try:
            self._tried(lambda: self._client.delete(_kind(kind), name, **how, **scope))
        except ApiError as error:
            if error.response.status_code != 404:
                raise

    def log(self, pod: str, *, namespace: str, follow: bool = False) -> Iterator[str]:
        lines: Iterator[str] = self._client.log(pod, namespace=namespace, follow=follow, newlines=False)
        return lines

    def watch(self, kind: str, *, since: str) -> Iterator[tuple[str, Object]]:
        """Changes everywhere after a version; ends with an error of httpx2 when the connection does."""
        scope = {} if kind in _GLOBAL else {"namespace": "*"}
        for change, found in self._client.watch(_kind(kind), resource_version=since, **scope):
            yield change, _plain(found)

    def _tried(self, call: Callable[[], Answer]) -> Answer:
        """A refused connection or a server error is tried again for a while, and a quota that is not counted
        yet for longer; a clear answer is not.
        """
        begun = time.monotonic()
        deadline, counted = begun + _PATIENCE, begun + _COUNT_PATIENCE
        is_said = False
        while True:
            try:
                return call()
            except httpx2.HTTPError as error:
                if _is_uncounted(error):
                    if time.monotonic() > counted:
                        raise NotCountedError(_not_counted(error)) from error
                    if not is_said:
                        self._say(f"waiting for kube-controller-manager to count the quota: {error}")
                        is_said = True
                    time.sleep(_PAUSE)
                    continue
                if isinstance(error, httpx2.HTTPStatusError) and not _may_pass(error):
                    raise
                if time.monotonic() > deadline:
                    raise UnreachableError(f"the API server does not answer: {error}") from error
            time.sleep(_PAUSE)


_GLOBAL: Final = frozenset({"Namespace", "Node", *(kind for _, _, kind, _ in _CLUSTER_WIDE)})


def _may_pass(error: httpx2.HTTPStatusError) -> bool:
    code = error.response.status_code
    return code in (409, 429) or code >= 500


def _is_uncounted(error: httpx2.HTTPError) -> bool:
    is_refusal = isinstance(error, httpx2.HTTPStatusError) and error.response.status_code == 403
    return is_refusal and _NOT_COUNTED in str(error)


def _not_counted(error: httpx2.HTTPError) -> str:
    return (
        f"still refused after {_COUNT_PATIENCE:.0f} s: {error}. Fix: see that kube-controller-manager runs "
        "and that `kubectl get apiservices` shows none that is not available, then submit again"
    )


def _kind(name: str) -> Any:
    return resource_registry.load(_VERSIONS[name], name)


def _plain(found: Any) -> Object:
    plain: Object = found.to_dict()
    plain["kind"] = type(found).__name__  # the items of a list come without
    return plain
