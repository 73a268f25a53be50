"""Ray that is too old or unguarded does not get into a team's namespace: judged by a real API server."""

import copy
import json
import urllib.error
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from muster.model import names
from muster.model.programs import Version
from muster.model.ray import Ray, RayAuth
from muster.render import ray
from tests.envtest import path_of
from tests.integration.conftest import ApiServer
from tests.integration.tenancy.cluster import administrator
from tests.waiting import eventually

Spec = dict[str, Any]
_KINDS = {"RayCluster": "rayclusters", "RayJob": "rayjobs", "RayService": "rayservices"}
_WHERE = {"RayCluster": "", "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
_TEAM, _OTHER = "ray-team", "ray-elsewhere"


def cluster() -> Spec:
    container = {"name": "ray", "image": "registry.test/rayproject/ray:2.54.1"}
    template = {"spec": {"containers": [container]}}
    return {
        "rayVersion": "2.54.1",
        "authOptions": {"mode": "token"},
        "headGroupSpec": {"rayStartParams": {}, "template": template},
        "workerGroupSpecs": [
            {"groupName": "w", "minReplicas": 1, "maxReplicas": 1, "template": copy.deepcopy(template)}
        ],
    }


def body(kind: str, spec: Spec, name: str = "one") -> Spec:
    where = _WHERE[kind]
    whole: Spec = (
        {where: spec, "entrypoint": "true"} if kind == "RayJob" else {where: spec} if where else spec
    )
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": _TEAM},
        "spec": whole,
    }


def path(kind: str, namespace: str = _TEAM) -> str:
    return f"/apis/ray.io/v1/namespaces/{namespace}/{_KINDS[kind]}"


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    """With Ray's kinds, a team's namespace and another, and no policy yet."""
    kinds = [_crd(kind, plural) for kind, plural in _KINDS.items()]
    api_server.define(kinds)
    for kind in _KINDS:
        eventually(f"{kind} is served", partial(api_server.call, "GET", path(kind)))
    for name, labels in ((_TEAM, {names.TEAM_LABEL: _TEAM}), (_OTHER, {})):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        api_server.apply(namespace, f"/api/v1/namespaces/{name}")
    yield api_server
    for each in kinds:
        api_server.call("DELETE", path_of(each))


@pytest.fixture(scope="module")
def guarded(server: ApiServer) -> Iterator[ApiServer]:
    """With the policy in force; one unsound cluster stands there from before."""
    old = cluster() | {"rayVersion": "2.40.0", "suspend": False}
    del old["authOptions"]
    server.call("POST", path("RayCluster"), body("RayCluster", old, "from-before"))
    _install(server, Ray())
    too_old = cluster() | {"rayVersion": "2.0.0"}
    eventually("the policy is in force", lambda: refusal(server, "RayCluster", too_old) is not None)
    yield server
    _remove(server, Ray())


def _install(server: ApiServer, wanted: Ray) -> None:
    for each in ray.admission(wanted):
        server.apply(each, path_of(each))


def _remove(server: ApiServer, wanted: Ray) -> None:
    for each in reversed(ray.admission(wanted)):
        server.call("DELETE", path_of(each))


def refusal(server: ApiServer, kind: str, spec: Spec, *, namespace: str = _TEAM) -> str | None:
    """What the API server says against it; None when it takes it."""
    wanted = body(kind, spec)
    wanted["metadata"]["namespace"] = namespace
    try:
        server.call("POST", path(kind, namespace) + "?dryRun=All", wanted)
    except urllib.error.HTTPError as error:
        if error.code not in (403, 422):
            raise
        return str(json.loads(error.read())["message"])
    return None


def _crd(kind: str, plural: str) -> Spec:
    """The kind with any content: the policy has to stand on its own expressions, not on a schema."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {
            "group": "ray.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


def without_auth(spec: Spec) -> None:
    del spec["authOptions"]


def container(spec: Spec, group: str) -> Spec:
    held = spec["headGroupSpec"] if group == "head" else spec["workerGroupSpecs"][0]
    found: Spec = held["template"]["spec"]["containers"][0]
    return found


UNSOUND: dict[str, tuple[Callable[[Spec], object], str]] = {
    "older": (lambda spec: spec.update(rayVersion="2.53.9"), "2.54 or newer"),
    "much older": (lambda spec: spec.update(rayVersion="1.99"), "2.54 or newer"),
    "no version": (lambda spec: spec.pop("rayVersion"), "2.54 or newer"),
    "no number": (lambda spec: spec.update(rayVersion="nightly"), "2.54 or newer"),
    "old image of the head": (
        lambda s: container(s, "head").update(image="r.io/ray:2.9.0-gpu"),
        "is older than Ray 2.54",
    ),
    "old image of a worker": (
        lambda s: container(s, "worker").update(image="r.io/ray-ml:2.44.1"),
        "is older than Ray 2.54",
    ),
    "no authentication": (without_auth, "authOptions.mode has to be token"),
    "authentication off": (lambda s: s.update(authOptions={"mode": "disabled"}), "has to be token"),
    "authentication without a mode": (lambda s: s.update(authOptions={}), "has to be token"),
    "switched off by hand": (
        lambda s: container(s, "worker").update(env=[{"name": "RAY_AUTH_MODE", "value": "disabled"}]),
        "may not be set by hand",
    ),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_a_sound_cluster_is_taken(guarded: ApiServer, kind: str) -> None:
    assert refusal(guarded, kind, cluster()) is None
    assert refusal(guarded, kind, cluster() | {"rayVersion": "3.0.0"}) is None
    own_name = cluster()
    container(own_name, "head").update(image="registry.test/team/training@sha256:" + "ab" * 32)
    assert refusal(guarded, kind, own_name) is None


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("case", UNSOUND)
def test_an_unsound_cluster_is_refused_with_the_way_out(guarded: ApiServer, kind: str, case: str) -> None:
    change, told = UNSOUND[case]
    spec = cluster()
    change(spec)
    assert told in (refusal(guarded, kind, spec) or "taken")


@pytest.mark.parametrize("kind", _KINDS)
def test_one_refusal_has_every_line_to_add(guarded: ApiServer, kind: str) -> None:
    """As published samples are: no version, an image of last year, no authentication."""
    spec = cluster()
    del spec["rayVersion"], spec["authOptions"]
    container(spec, "worker").update(image="registry.test:5000/rayproject/ray-ml:2.46.0-gpu")
    answer = refusal(guarded, kind, spec) or "taken"
    where = f"spec.{_WHERE[kind]}".removesuffix(".")
    for line in (
        f"Write in {where}: ",
        'rayVersion: "2.54.0"',
        "authOptions: {mode: token}",
        "image: registry.test:5000/rayproject/ray:2.54.0-gpu",
    ):
        assert line in answer


def test_a_job_that_selects_a_cluster_is_taken(guarded: ApiServer) -> None:
    job = body("RayJob", {})
    job["spec"] = {"entrypoint": "true", "clusterSelector": {"ray.io/cluster": "one"}}
    guarded.call("POST", path("RayJob") + "?dryRun=All", job)


def test_namespaces_of_no_team_are_left_alone(guarded: ApiServer) -> None:
    assert refusal(guarded, "RayCluster", cluster() | {"rayVersion": "2.0.0"}, namespace=_OTHER) is None


def test_work_from_before_can_still_be_suspended_and_nothing_sound_becomes_unsound(
    guarded: ApiServer,
) -> None:
    one = path("RayCluster") + "/from-before"
    patch = {"spec": {"suspend": True}}
    guarded.call("PATCH", one, patch, content_type="application/merge-patch+json")
    guarded.call("POST", path("RayCluster"), body("RayCluster", cluster(), "sound"))
    spoiled = {"spec": {"rayVersion": "2.40.0"}}
    with pytest.raises(urllib.error.HTTPError):
        guarded.call(
            "PATCH", path("RayCluster") + "/sound", spoiled, content_type="application/merge-patch+json"
        )


def test_a_stack_may_name_another_minimum(guarded: ApiServer) -> None:
    _install(guarded, Ray(minimum=Version(2, 52)))
    older, oldest = cluster() | {"rayVersion": "2.52.0"}, cluster() | {"rayVersion": "2.51.9"}
    try:
        eventually("2.52 is taken", lambda: refusal(guarded, "RayCluster", older) is None)
        assert "2.52 or newer" in (refusal(guarded, "RayCluster", oldest) or "taken")
    finally:
        _install(guarded, Ray())


def test_a_stack_may_prefer_what_others_require(guarded: ApiServer) -> None:
    """An older version of the kinds is refused still: a write in it would remove the token of another."""
    preferred = Ray(auth=RayAuth.PREFERRED)
    old = body("RayJob", cluster() | {"rayVersion": "2.9.0"}, "aged")
    del old["spec"]["rayClusterSpec"]["authOptions"]
    _install(guarded, preferred)
    member = administrator(guarded)
    try:
        eventually("it is warned of", lambda: bool(member.create(old).warnings))
        answer = member.create(old)
        assert answer.is_allowed
        (warning,) = answer.warnings
        assert 'Write in spec.rayClusterSpec: rayVersion: \\"2.54.0\\", authOptions: {mode: token}' in warning
        assert member.create(body("RayJob", cluster(), "sound")).warnings == ()
    finally:
        _remove(guarded, preferred)
        _install(guarded, Ray())
        eventually("it is refused", lambda: not member.create(old).is_allowed)


def test_a_stack_may_switch_tokens_off_and_never_the_floor(guarded: ApiServer) -> None:
    _install(guarded, Ray(auth=RayAuth.OFF))
    unguarded = cluster()
    without_auth(unguarded)
    try:
        eventually("guards are not asked for", lambda: refusal(guarded, "RayCluster", unguarded) is None)
        assert refusal(guarded, "RayCluster", cluster() | {"rayVersion": "2.53.0"}) is not None
    finally:
        _install(guarded, Ray())
