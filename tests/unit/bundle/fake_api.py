"""As much of an API server as a Bundle can tell from the real one."""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from muster.kubernetes.kubeconfig import Access

KINDS = {
    "v1": [
        ("namespaces", "Namespace", False),
        ("configmaps", "ConfigMap", True),
        ("secrets", "Secret", True),
        ("pods", "Pod", True),
        ("resourcequotas", "ResourceQuota", True),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
    ],
    "ray.io/v1": [("rayjobs", "RayJob", True)],
    "apiextensions.k8s.io/v1": [("customresourcedefinitions", "CustomResourceDefinition", False)],
    "kueue.x-k8s.io/v1beta2": [
        ("clusterqueues", "ClusterQueue", False),
        ("resourceflavors", "ResourceFlavor", False),
        ("localqueues", "LocalQueue", True),
    ],
}


SYSTEM = "/api/v1/namespaces/kube-system"


def _new_cluster() -> dict[str, dict[str, Any]]:
    return {SYSTEM: {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "the-cluster"}}}


@dataclass(slots=True)
class FakeApi:
    """`log` is every write in order; `refusals` answers the next writes to a path unseen; `asked` is
    which APIs were looked through for their kinds, and `listed` which kinds were listed. `counted` is which
    names of quotas the controller manager knows, None for all: it counts a quota when its `spec.hard`
    changes. `definition_is` are the conditions of a CRD that are true, `read` what was
    read by its name, and `groups` which were asked for their versions.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=_new_cluster)
    log: list[str] = field(default_factory=list)
    refusals: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    holders: dict[str, tuple[str, str]] = field(default_factory=dict)
    unserved: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    counted: set[str] | None = None
    definition_is: tuple[str, ...] = ("Established",)
    read: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    uids: int = 0

    async def start(self) -> tuple[TestServer, Access]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        server = TestServer(app)
        await server.start_server()
        return server, Access(server=str(server.make_url("")).rstrip("/"), context="fake")

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version in KINDS:
            return self._discovery(version)
        if path.startswith("/apis/") and "/" not in version:
            return self._group(version)
        if "PartialObjectMetadataList" in request.headers.get("Accept", ""):
            return self._metadata(path)
        if request.method != "GET":
            self.log.append(f"{request.method} {path.rsplit('/', 2)[-2]}/{path.rsplit('/', 1)[-1]}")
            if self.refusals.get(path):
                status, body = self.refusals[path].pop(0)
                return web.json_response(body, status=status)
        if request.method == "POST":
            assert request.query["dryRun"] == "All"
            return web.json_response(json.loads(await request.read()), status=201)
        if request.method == "PATCH":
            if request.content_type == "application/merge-patch+json":
                return self._merge(path, json.loads(await request.read()))
            return self._apply(path, json.loads(await request.read()), force=request.query["force"] == "true")
        self.read.append(path)
        live = self.objects.get(path)
        if live is None:
            return web.json_response({"reason": "NotFound", "message": f"{path} not found"}, status=404)
        if request.method == "DELETE":
            self._delete(path, live)
        return web.json_response(live)

    def _metadata(self, path: str) -> web.Response:
        """Of every object of a kind, in all namespaces."""
        self.listed.append(path)
        if self.refusals.get(path):
            status, body = self.refusals[path].pop(0)
            return web.json_response(body, status=status)
        root, _, plural = path.rpartition("/")
        items = [
            {"metadata": live["metadata"]}
            for place, live in self.objects.items()
            if place.startswith(root) and place.split("/")[-2] == plural
        ]
        return web.json_response({"items": items})

    def _discovery(self, version: str) -> web.Response:
        self.asked.append(version)
        resources = [
            {"name": plural, "kind": kind, "namespaced": namespaced}
            for plural, kind, namespaced in KINDS[version]
            if kind not in self.unserved
        ]
        return web.json_response({"resources": resources})

    def _group(self, group: str) -> web.Response:
        self.groups.append(group)
        versions = [
            {"groupVersion": version}
            for version, kinds in KINDS.items()
            if version.startswith(f"{group}/") and any(kind not in self.unserved for _, kind, _ in kinds)
        ]
        return web.json_response({"versions": versions}, status=200 if versions else 404)

    def _apply(self, path: str, body: dict[str, Any], *, force: bool) -> web.Response:
        if path in self.holders and not force:
            manager, where = self.holders[path]
            cause = {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{manager}" using v1',
                "field": where,
            }
            return web.json_response(
                {"reason": "Conflict", "message": "conflict", "details": {"causes": [cause]}}, status=409
            )
        version = body["metadata"].get("resourceVersion")
        if version and version != self.objects[path]["metadata"]["resourceVersion"]:
            return web.json_response({"reason": "Conflict", "message": "it has been modified"}, status=409)
        self.uids += 1
        old = self.objects.get(path, {}).get("metadata", {})
        live = copy.deepcopy(body)
        live["metadata"] |= {
            key: old[key] for key in ("uid", "finalizers", "deletionTimestamp") if key in old
        }
        live["metadata"].setdefault("uid", f"uid-{self.uids}")
        live["metadata"]["resourceVersion"] = str(self.uids)
        if body["kind"] == "CustomResourceDefinition":
            live["status"] = {"conditions": [{"type": each, "status": "True"} for each in self.definition_is]}
        if body["kind"] == "ResourceQuota":
            self._count(live, self.objects.get(path, {}))
        self.objects[path] = live
        return web.json_response(live)

    def _merge(self, path: str, body: dict[str, Any]) -> web.Response:
        """Of finalizers: an object that waits for them goes with the last."""
        live = self.objects[path]
        if body["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            return web.json_response({"reason": "Conflict", "message": "conflict"}, status=409)
        live["metadata"] |= body["metadata"]
        if live["metadata"].get("deletionTimestamp") and not live["metadata"]["finalizers"]:
            del self.objects[path]
        return web.json_response(live)

    def _count(self, live: dict[str, Any], before: dict[str, Any]) -> None:
        hard = live["spec"]["hard"]
        if before.get("spec", {}).get("hard") == hard:
            live["status"] = before["status"]
        else:
            used = {name: "0" for name in hard if self.counted is None or name in self.counted}
            live["status"] = {"hard": hard, "used": used}

    def _delete(self, path: str, live: dict[str, Any]) -> None:
        if live["metadata"].get("finalizers"):
            live["metadata"]["deletionTimestamp"] = "now"
            return
        inside = f"{path}/" if "/namespaces/" in path else path
        for gone in [each for each in self.objects if each == path or each.startswith(inside)]:
            del self.objects[gone]
