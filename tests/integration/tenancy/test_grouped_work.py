"""JobSets, PyTorchJobs and MPIJobs, before a real API server: created, grown, stopped, started, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from muster.local import envtest
from muster.local.envtest.programs import CRDS, PROVISIONING_CRD
from muster.model.work import GROUPED, Work, WorkKind
from tests import built
from tests.integration.tenancy import crds, works
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.conftest import World, described, world_of

KINDS: Final = pytest.mark.parametrize("kind", GROUPED, ids=lambda each: each.kind)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    kuberay = built.kuberay()
    with envtest.control_plane(tmp_path_factory.mktemp("grouped"), programs) as server:
        kinds = [*programs.kinds(CRDS), *programs.kinds(PROVISIONING_CRD), *crds.kuberay(kuberay)]
        server.define([*kinds, *crds.gateways(), crds.compute_domains(), *crds.groups_of_pods()])
        yield world_of(server, replace(described(), work=tuple(Work)))


def work(kind: WorkKind, name: str, *, replicas: int = 2, suspend: bool = True, **pod: Any) -> Object:
    """Workers with a GPU each."""
    template = works.template(1, restart="Never", **pod)
    path = kind.pods[0].template
    if path.field:
        body: Object = {"replicatedJobs": [job(replicas, template)], "suspend": suspend}
    else:
        worker = {"replicas": replicas, "template": template}
        policy = {"suspend": suspend, "cleanPodPolicy": "Running"}
        body = {path.groups.removeprefix("spec."): {"Worker": worker}, "runPolicy": policy}
    labels = {works.QUEUE: "default", works.PRIORITY: "dev"}
    return {
        "apiVersion": f"{kind.group}/{kind.version}",
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": works.NAMESPACE, "labels": labels},
        "spec": body,
    }


def job(replicas: int, template: Object) -> Object:
    return {"name": "w", "replicas": replicas, "template": {"spec": {"template": template}}}


@KINDS
def test_members_submit_it(served: World, kind: WorkKind) -> None:
    answer = served.member.create(work(kind, "fine"))
    assert answer.is_allowed, answer.message


@KINDS
def test_a_template_of_a_group_is_judged_as_a_pod(served: World, kind: WorkKind) -> None:
    answer = served.member.create(work(kind, "reaching", hostNetwork=True))
    assert not answer.is_allowed
    assert f"In {kind.pods[0].template.groups}" in answer.message


@KINDS
def test_no_more_pods_than_the_namespace_holds(served: World, kind: WorkKind) -> None:
    """A product of two factors that are small enough."""
    answer = served.member.create(work(kind, "many", replicas=1_000_000))
    assert "muster-sizes" in answer.refusals, answer.message


@KINDS
def test_what_runs_is_not_made_larger_and_what_waits_is_not_started(served: World, kind: WorkKind) -> None:
    waits, runs = work(kind, "waits"), work(kind, "runs", suspend=False)
    for body in (waits, runs):
        assert served.admin.create(body, dry_run=False).is_allowed
    larger = {"spec": work(kind, "runs", replicas=9, suspend=False)["spec"]}
    assert "is running, and its queue counted its pods" in served.member.patch(runs, larger).message
    started = served.member.patch(waits, {"spec": work(kind, "waits", suspend=False)["spec"]})
    assert f"leave {kind.suspend} as it is" in started.message
    assert served.member.patch(waits, {"spec": work(kind, "waits", replicas=9)["spec"]}).is_allowed
    assert served.member.delete(runs).is_allowed


@KINDS
def test_no_other_controller_is_named(served: World, kind: WorkKind) -> None:
    body = work(kind, "elsewhere")
    *way, last = kind.managers[0].text.split(".")
    at = body
    for key in way:
        at = at.setdefault(key, {})
    at[last] = "example.com/other"
    assert "managed by example.com/other" in served.member.create(body).message
    at[last] = kind.manager
    answer = served.member.create(body)
    assert answer.is_allowed, answer.message
