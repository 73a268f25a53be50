"""The few calls to a Kubernetes API that the stories need, on plain dictionaries.

Responsible for: which errors are retried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlencode

from muster.kubernetes.client import APPLY, JSON, MERGE, STRATEGIC, Client, api_root, inside
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import KubeconfigError, load_access

Object = dict[str, Any]

_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_GLOBAL: Final = {
    "Namespace": "v1",
    "Node": "v1",
    "GangPolicy": "muster.dev/v1alpha1",
    **dict.fromkeys(
        (
            *("ClusterQueue", "ResourceFlavor", "AdmissionCheck", "Cohort", "WorkloadPriorityClass"),
            "ProvisioningRequestConfig",
        ),
        _KUEUE,
    ),
}
_VERSIONS: Final = {
    **_GLOBAL,
    **dict.fromkeys(("Pod", "PodTemplate", "ConfigMap", "ServiceAccount", "Service", "Event"), "v1"),
    **dict.fromkeys(("RayJob", "RayCluster", "RayService"), "ray.io/v1"),
    **dict.fromkeys(("Workload", "LocalQueue"), _KUEUE),
    **dict.fromkeys(("Role", "RoleBinding"), "rbac.authorization.k8s.io/v1"),
    "ProvisioningRequest": "autoscaling.x-k8s.io/v1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "Lease": "coordination.k8s.io/v1",
}

_PLURALS: Final = {"GangPolicy": "gangpolicies", "WorkloadPriorityClass": "workloadpriorityclasses"}
FIELD_MANAGER: Final = "muster-examples"
# How long a call is tried again while the API server is away or restarts.
_PATIENCE: Final = 60.0
_PAUSE: Final = 1.0
# A quota over kinds that are new to the cluster: until kube-controller-manager has counted its objects, the
# API server refuses to create any. It learns of new kinds every 30 s and recounts every five minutes.
# `pulumi up` waits for that; quotas that came by another way are waited for here.
_COUNT_PATIENCE: Final = 360.0
# A job may print nothing for long.
_SILENT_JOB: Final = 600.0


class NotCountedError(UnreachableError):
    """kube-controller-manager has not counted a quota in time, so nothing can be created."""


def _no_message(_: str) -> None:
    pass


class Cluster:
    """One cluster, by the usual rules: KUBECONFIG, then ~/.kube/config. `say` gets a line for a long wait.

    Calls raise ApiError for a refusal and UnreachableError where nothing answers.
    """

    def __init__(self, kubeconfig: str | None = None, *, say: Callable[[str], None] = _no_message) -> None:
        self._say = say
        try:
            self._client = Client(load_access(kubeconfig))
        except KubeconfigError as error:
            raise UnreachableError(
                f'kubeconfig: {error.message} On the local cluster: eval "$(muster local env)"'
            ) from error

    def all(self, kind: str, *, namespace: str | None = None) -> list[Object]:
        """Every object of a kind; namespace None means everywhere. [] while the kind does not exist."""
        return self.listed(kind, namespace=namespace)[0]

    def listed(self, kind: str, *, namespace: str | None = None) -> tuple[list[Object], str]:
        """The same, and the version from which `watch` goes on."""
        found = self._found(_path(kind, namespace=namespace))
        if found is None:
            return [], "0"
        # The items of a list come without.
        return [{**item, "kind": kind} for item in found["items"]], found["metadata"]["resourceVersion"]

    def get(self, kind: str, name: str, *, namespace: str | None = None) -> Object | None:
        return self._found(_path(kind, name, namespace=namespace))

    def apply(self, manifest: Object) -> Object:
        """Server-side apply, as `kubectl apply --server-side --force-conflicts` does it."""
        kind, meta = manifest["kind"], manifest["metadata"]
        path = _path(
            kind, meta["name"], namespace=meta.get("namespace"), fieldManager=FIELD_MANAGER, force="true"
        )
        applied: Object = self._tried("PATCH", path, manifest, content_type=APPLY)
        return applied

    def patch(self, kind: str, name: str, change: Object, *, namespace: str | None = None) -> None:
        path = _path(kind, name, namespace=namespace, fieldManager=FIELD_MANAGER)
        self._tried("PATCH", path, change, content_type=MERGE)

    def patch_status(self, kind: str, name: str, change: Object) -> None:
        """Of lists such as conditions, only the entries that it names."""
        self._tried("PATCH", f"{_path(kind, name)}/status", {"status": change}, content_type=STRATEGIC)

    def delete(self, kind: str, name: str, *, namespace: str | None = None, grace: int | None = None) -> None:
        """Ask for the deletion; an object that is gone already is fine. `grace` in seconds is for pods."""
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": grace}
        self._found(_path(kind, name, namespace=namespace), "DELETE", options)

    def log(self, pod: str, *, namespace: str) -> Iterator[str]:
        """What the pod has printed and prints, until it ends."""
        path = f"{_path('Pod', pod, namespace=namespace)}/log?follow=true"
        return self._client.lines(path, silent=_SILENT_JOB)

    def watch(self, kind: str, *, since: str) -> Iterator[tuple[str, Object]]:
        """Changes everywhere after a version, until the server ends the watch."""
        for event, found in self._client.watch(_path(kind), since):
            if event != "BOOKMARK":
                yield event, found

    def _found(self, path: str, method: str = "GET", body: Object | None = None) -> Object | None:
        try:
            found: Object = self._tried(method, path, body)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def _tried(self, method: str, path: str, body: Object | None = None, *, content_type: str = JSON) -> Any:
        """A refused connection or a server error is tried again for a while, and a quota that is not counted
        yet for longer; a clear answer is not.
        """
        begun = time.monotonic()
        is_said = False
        while True:
            try:
                return self._client.call(method, path, body, content_type=content_type)
            except UnreachableError:
                if time.monotonic() > begun + _PATIENCE:
                    raise
            except ApiError as error:
                limit = _COUNT_PATIENCE if error.quota_unknown else _PATIENCE
                is_over = time.monotonic() > begun + limit
                if error.quota_unknown and is_over:
                    raise _not_counted(error) from error
                if is_over or not (error.quota_unknown or error.status in (409, 429) or error.status >= 500):
                    raise
                if error.quota_unknown and not is_said:
                    self._say(f"waiting for kube-controller-manager to count the quota: {error}")
                    is_said = True
            time.sleep(_PAUSE)


def _path(kind: str, name: str = "", *, namespace: str | None = None, **query: str) -> str:
    """Of an object, or of all of a kind; an object of a kind with namespaces is in `default` without one."""
    space = None if kind in _GLOBAL else namespace or ("default" if name else None)
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    path = f"{api_root(_VERSIONS[kind])}{inside(space or '')}/{plural}"
    return f"{path}{f'/{name}' if name else ''}{f'?{urlencode(query)}' if query else ''}"


def _not_counted(error: ApiError) -> NotCountedError:
    return NotCountedError(
        f"still refused after {_COUNT_PATIENCE:.0f} s: {error}.",
        fix="see that kube-controller-manager runs and that `kubectl get apiservices` shows none that is not "
        "available, then submit again",
    )
