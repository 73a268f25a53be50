"""The controller's two programs on a real API server, with the objects and rights that a stack gives them.

What the Pulumi program registers is applied as it stands, strictly; the programs run as processes with the
tokens of their own ServiceAccounts. No Kueue: nothing is decided here, it is the runtime that is looked at.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pulumi_kubernetes as kubernetes
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from components.bundle import BundleProvider
from components.footprint import footprint
from components.gang_admission import GangAdmission
from components.gang_authority import CERTIFICATES, MANAGER, PROGRAM, WEBHOOKS
from localplane import bare
from localplane.bare import ControlPlane
from localplane.bare.kueue import define
from localplane.bare.process import free_port
from model import queuetree
from model.gangpolicy import crd
from model.names import SYSTEM_NAMESPACE
from model.stack import ArtifactSource
from stackconfig import load
from stackconfig.artifacts import Artifacts
from tests.integration.kueue_api.objects import apply, wait_for
from tests.mocks.recorder import run
from tests.mocks.test_platform import LOCAL

_ROOT: Final = Path(__file__).parents[3]
_PATIENCE: Final = 120.0
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{PROGRAM}"
_SECRET: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{CERTIFICATES}"
_HOOKS: Final = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{PROGRAM}"


def _served(context: ssl.SSLContext, port: int, name: str) -> bytes:
    """The certificate that a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as raw,
        context.wrap_socket(raw, server_hostname=name) as served,
    ):
        return served.getpeercert(binary_form=True) or b""


@dataclass(slots=True)
class Running:
    """One process of ours."""

    child: subprocess.Popen[bytes]
    health: int
    log: Path
    webhooks: int = 0

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; (0, "") while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self) -> bool:
        assert self.child.poll() is None, self.log.read_text()[-3000:]
        return self.get("/readyz")[0] == 200

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return [(s.labels, s.value) for family in families for s in family.samples if s.name == name]

    def leads(self) -> bool:
        return any(value == 1 for _, value in self.samples("leader_election_master_status"))

    def certificate(self) -> bytes:
        """What a new connection is served with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return _served(context, self.webhooks, "any")


@dataclass(slots=True)
class Cluster:
    """An API server that holds what the stack makes for the controller."""

    plane: ControlPlane
    made: list[dict[str, Any]]
    folder: Path
    started: list[Running] = field(default_factory=list)

    def start(self, command: str, account: str, identity: str) -> Running:
        health, webhooks = free_port(), free_port()
        argv = [sys.executable, "-m", "controller", command, f"--kubeconfig={self._kubeconfig(account)}"]
        argv += [f"--health-port={health}", f"--identity={identity}"]
        if command == "webhooks":
            argv += [f"--webhook-port={webhooks}", f"--validating={PROGRAM}", f"--mutating={PROGRAM}"]
        log = self.folder / f"{identity}.log"
        with log.open("ab") as out:
            child = subprocess.Popen(argv, cwd=_ROOT, stdout=out, stderr=out, env=dict(os.environ))
        self.started.append(Running(child, health, log, webhooks))
        return self.started[-1]

    def _kubeconfig(self, account: str) -> Path:
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.plane.call("POST", path, body)["status"]["token"]
        written = self.plane.kubeconfig(token, name=account)
        as_json = self.folder / f"{account}.json"
        as_json.write_text(json.dumps(yaml.safe_load(written.read_text())))
        return as_json

    def pods(self) -> Iterator[dict[str, Any]]:
        for deployment in (each for each in self.made if each["kind"] == "Deployment"):
            template = deployment["spec"]["template"]
            meta = {"name": deployment["metadata"]["name"], "namespace": SYSTEM_NAMESPACE}
            named = {"metadata": template["metadata"] | meta, "spec": template["spec"]}
            yield {"apiVersion": "v1", "kind": "Pod", **named}

    def forbidden(self) -> list[dict[str, str]]:
        """Calls that the API server refused for want of a right."""
        calls = [sample for each in self.started for sample in each.samples("rest_client_requests_total")]
        return [labels for labels, _ in calls if labels["code"] == "403"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = bare.found(("etcd", "kube-apiserver"), ("kueue-crds", "provisioningrequest-crd"))
    if programs is None:
        pytest.skip("no etcd, kube-apiserver and CRDs: build them with `make build`, or set MUSTER_ARTIFACTS")
    folder = tmp_path_factory.mktemp("processes")
    with bare.control_plane(folder, programs) as plane:
        define(plane, programs)
        plane.define([crd(), queuetree.crd()])
        found = Cluster(plane, registered(), folder)
        for item in found.made:
            apply(plane, item)
        try:
            yield found
        finally:
            for each in found.started:
                with suppress(OSError):
                    each.child.kill()
                each.child.wait(30)


def registered() -> list[dict[str, Any]]:
    """What the component makes, in the order of its making."""
    stack = load(LOCAL)
    artifacts = Artifacts(
        source="test",
        charts={},
        kustomize={},
        crds={},
        images={"gang-admission": f"registry.test/x@sha256:{'ab' * 32}"},
        programs={},
    )

    def program() -> None:
        GangAdmission(
            "gang-admission",
            stack=stack,
            artifacts=artifacts,
            footprint=footprint(replace(stack, artifacts=ArtifactSource.UPSTREAM)),
            provider=kubernetes.Provider("cluster", kubeconfig="{}"),
            bundles=BundleProvider("bundles", kubeconfig="{}", context="c"),
            depends_on=[],
        )

    found: list[dict[str, Any]] = []
    for each in run(program).resources:
        if each.type == "muster:k8s:Bundle":
            texts = each.inputs["manifests"].values()
            found += [item for text in texts for item in json.loads(text).values()]
        elif each.type.startswith("kubernetes:"):
            found.append(_whole(dict(each.inputs)))
    return sorted(found, key=lambda item: item["kind"] != "Namespace")


def _whole(value: Any) -> Any:
    """The engine's numbers are floating; the API's are not."""
    match value:
        case dict():
            return {key: _whole(each) for key, each in value.items()}
        case list():
            return [_whole(each) for each in value]
        case float() if value.is_integer():
            return int(value)
    return value


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two managers and the webhooks, all ready."""

    cluster: Cluster
    managers: list[Running]
    webhooks: Running

    def leader(self) -> Running:
        def found() -> Running | None:
            return next((manager for manager in self.managers if manager.leads()), None)

        leader: Running = wait_for("one leads", found, seconds=_PATIENCE)
        return leader


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Fleet:
    managers = [cluster.start("manager", MANAGER, f"manager-{number}") for number in range(2)]
    webhooks = cluster.start("webhooks", WEBHOOKS, "webhooks-0")
    for each in (*managers, webhooks):
        wait_for(f"{each.log.name} is ready", each.is_ready, seconds=_PATIENCE)
    return Fleet(cluster, managers, webhooks)


def test_a_restricted_namespace_takes_our_pods_and_no_others(cluster: Cluster) -> None:
    pods = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?dryRun=All"
    for pod in cluster.pods():
        cluster.plane.call("POST", pods, pod)
        loose = json.loads(json.dumps(pod))
        del loose["spec"]["securityContext"]["runAsNonRoot"]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            cluster.plane.call("POST", pods, loose)


def test_every_replica_is_ready_with_warm_caches_and_one_leads(fleet: Fleet) -> None:
    leader = fleet.leader()
    for manager in fleet.managers:
        held = {labels["resource"]: value for labels, value in manager.samples("muster_cache_objects")}
        assert held["gangpolicies.muster.dev"] == 1
        assert {"workloads.kueue.x-k8s.io", "nodes", "pods"} <= held.keys()
        assert manager.get("/healthz")[0] == 200
        assert manager.leads() is (manager is leader)
        assert {value for _, value in manager.samples("muster_gangs")} == {0}


def test_the_rights_that_we_are_given_are_enough(fleet: Fleet) -> None:
    """For running; what gangs need is proven where gangs are (kueue_api, kai_gangs, e2e)."""
    fleet.leader()
    accepted = "/apis/muster.dev/v1alpha1/gangpolicies/default"
    wait_for("the policy is judged", lambda: fleet.cluster.plane.call("GET", accepted).get("status"))
    assert fleet.cluster.forbidden() == []


def test_the_webhooks_serve_with_a_certificate_that_their_configuration_trusts(fleet: Fleet) -> None:
    (*_, hook) = fleet.cluster.plane.call("GET", _HOOKS)["webhooks"]
    trusted = base64.b64decode(hook["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=trusted)
    name = f"{WEBHOOKS}.{SYSTEM_NAMESPACE}.svc"
    assert _served(context, fleet.webhooks.webhooks, name)


def test_a_lost_secret_is_made_anew_and_served_without_a_restart(fleet: Fleet) -> None:
    before, plane = fleet.webhooks.certificate(), fleet.cluster.plane
    plane.call("DELETE", _SECRET)
    wait_for("another certificate", lambda: fleet.webhooks.certificate() != before, seconds=_PATIENCE)
    assert fleet.webhooks.child.poll() is None
    assert fleet.webhooks.is_ready()


def test_a_leader_that_is_stopped_gives_the_lease_back_and_the_other_leads(fleet: Fleet) -> None:
    """Last: it ends the fleet."""
    leader = fleet.leader()
    (other,) = [manager for manager in fleet.managers if manager is not leader]
    leader.child.send_signal(signal.SIGTERM)
    assert leader.child.wait(60) == 0
    assert '"lease released"' in leader.log.read_text()
    wait_for("the other leads", other.leads, seconds=_PATIENCE)
    holder = fleet.cluster.plane.call("GET", _LEASE)["spec"]["holderIdentity"]
    assert holder == other.log.stem
    fleet.webhooks.child.send_signal(signal.SIGTERM)
    assert fleet.webhooks.child.wait(60) == 0
