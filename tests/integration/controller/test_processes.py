"""The controller's two programs on a real API server, with the objects and rights that a stack gives them.

What the Pulumi program registers is applied as it stands, strictly; the programs run as processes with the
tokens of their own ServiceAccounts. No Kueue: nothing is decided here, it is the runtime that is looked at.
"""

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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.components.gang_authority import CERTIFICATES, MANAGER, PROGRAM, WEBHOOKS
from muster.config import load
from muster.model import queuetree
from muster.model.gangpolicy import crd
from muster.model.names import (
    ADMISSION_CHECK,
    API_VERSION,
    GANG_POLICY,
    GANG_POLICY_PLURAL,
    KUEUE_API_VERSION,
    SYSTEM_NAMESPACE,
)
from muster.model.stack import Scheduler
from muster.render.kueue.cluster import admission_check
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.kueue import definitions
from tests.envtest.process import PROVISIONING_CRD, free_port
from tests.integration.accounts import account_kubeconfig, limits, registered
from tests.integration.kueue_api.objects import apply
from tests.integration.rights import audited, forbidden
from tests.mocks.test_platform import LOCAL
from tests.waiting import PATIENCE, eventually

_ROOT: Final = Path(__file__).parents[3]
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{PROGRAM}"
_SECRET: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{CERTIFICATES}"
_POLICY: Final = f"/apis/{API_VERSION}/{GANG_POLICY_PLURAL}/{GANG_POLICY}"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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
    asking: dict[str, Any]
    """The definition of the kind that capacity is asked for with."""
    started: list[Running] = field(default_factory=list)

    def start(self, command: str, account: str, identity: str) -> Running:
        health, webhooks = free_port(), free_port()
        argv = [
            sys.executable,
            "-m",
            "muster.controller",
            command,
            f"--kubeconfig={account_kubeconfig(self.plane, account)}",
        ]
        argv += [f"--health-port={health}", f"--identity={identity}"]
        if command == "webhooks":
            argv += [f"--webhook-port={webhooks}"]
        else:
            argv += [f"--validating={PROGRAM}", f"--mutating={PROGRAM}"]
        log = self.folder / f"{identity}.log"
        with log.open("ab") as out:
            child = subprocess.Popen(argv, cwd=_ROOT, stdout=out, stderr=out, env=dict(os.environ))
        self.started.append(Running(child, health, log, webhooks))
        return self.started[-1]

    def pods(self) -> Iterator[dict[str, Any]]:
        for deployment in (each for each in self.made if each["kind"] == "Deployment"):
            template = deployment["spec"]["template"]
            meta = {"name": deployment["metadata"]["name"], "namespace": SYSTEM_NAMESPACE}
            named = {"metadata": template["metadata"] | meta, "spec": template["spec"]}
            yield {"apiVersion": "v1", "kind": "Pod", **named}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = built.programs(("etcd", "kube-apiserver"), ("kueue-crds", "provisioningrequest-crd"))
    folder = tmp_path_factory.mktemp("processes")
    kinds = [*definitions(programs), crd(), queuetree.crd()]
    with envtest.control_plane(folder, programs, kinds=kinds, flags=audited(folder, *Scheduler)) as plane:
        (asking,) = programs.kinds(PROVISIONING_CRD)
        found = Cluster(plane, registered(load(LOCAL)), folder, asking)
        for item in (*found.made, *limits(load(LOCAL))):
            apply(plane, item)
        try:
            yield found
        finally:
            for each in found.started:
                with suppress(OSError):
                    each.child.kill()
                each.child.wait(PATIENCE)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two managers and the webhooks, all ready."""

    cluster: Cluster
    managers: list[Running]
    webhooks: Running

    def leader(self) -> Running:
        def found() -> Running | None:
            return next((manager for manager in self.managers if manager.leads()), None)

        leader: Running = eventually("one leads", found)
        return leader


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Fleet:
    managers = [cluster.start("manager", MANAGER, f"manager-{number}") for number in range(2)]
    webhooks = cluster.start("webhooks", WEBHOOKS, "webhooks-0")
    for each in (*managers, webhooks):
        eventually(f"{each.log.name} is ready", each.is_ready)
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
    eventually("the policy is judged", lambda: fleet.cluster.plane.call("GET", accepted).get("status"))
    assert forbidden(fleet.cluster.folder) == []


def test_the_webhooks_serve_with_a_certificate_that_their_configuration_trusts(fleet: Fleet) -> None:
    (*_, hook) = fleet.cluster.plane.call("GET", _HOOKS)["webhooks"]
    trusted = base64.b64decode(hook["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=trusted)
    name = f"{WEBHOOKS}.{SYSTEM_NAMESPACE}.svc"
    assert _served(context, fleet.webhooks.webhooks, name)


def test_a_lost_secret_is_made_anew_and_served_without_a_restart(fleet: Fleet) -> None:
    before, plane = fleet.webhooks.certificate(), fleet.cluster.plane
    plane.call("DELETE", _SECRET)
    eventually("another certificate", lambda: fleet.webhooks.certificate() != before)
    assert fleet.webhooks.child.poll() is None
    assert fleet.webhooks.is_ready()


def test_a_deleted_webhook_configuration_is_reported_and_served_again_when_it_is_back(fleet: Fleet) -> None:
    plane, manager = fleet.cluster.plane, fleet.leader()
    held = plane.call("GET", _HOOKS)
    plane.call("DELETE", _HOOKS)
    eventually("the log names it", lambda: "webhook configuration is missing" in manager.log.read_text())
    present = manager.samples("muster_webhook_configuration_present")
    assert sorted((labels["kind"], value) for labels, value in present) == [
        ("MutatingWebhookConfiguration", 1),
        ("ValidatingWebhookConfiguration", 0),
    ]

    held["metadata"] = {"name": PROGRAM}
    for webhook in held["webhooks"]:
        del webhook["clientConfig"]["caBundle"]
    plane.call("POST", _HOOKS.rpartition("/")[0], held)
    eventually("its authority is in it again", lambda: _is_trusted(plane))


def _is_trusted(plane: ControlPlane) -> bool:
    return all("caBundle" in each["clientConfig"] for each in plane.call("GET", _HOOKS)["webhooks"])


def test_a_leader_that_is_stopped_gives_the_lease_back_and_the_other_leads(fleet: Fleet) -> None:
    """The last of the fleet: it ends here."""
    leader = fleet.leader()
    (other,) = [manager for manager in fleet.managers if manager is not leader]
    leader.child.send_signal(signal.SIGTERM)
    assert leader.child.wait(PATIENCE) == 0
    assert '"lease released"' in leader.log.read_text()
    eventually("the other leads", other.leads)
    holder = fleet.cluster.plane.call("GET", _LEASE)["spec"]["holderIdentity"]
    assert holder == other.log.stem
    for each in (other, fleet.webhooks):
        each.child.send_signal(signal.SIGTERM)
        assert each.child.wait(PATIENCE) == 0
    for each in fleet.cluster.started:
        lines = [json.loads(line) for line in each.log.read_text().splitlines()]
        assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)


def test_a_cluster_without_the_kind_of_requests_is_told_so_until_it_has_it(cluster: Cluster) -> None:
    plane, check = cluster.plane, f"/apis/{KUEUE_API_VERSION}/admissionchecks/{ADMISSION_CHECK}"
    plane.call("DELETE", f"{_DEFINITIONS}/{cluster.asking['metadata']['name']}")
    (made,) = admission_check(load(LOCAL))
    apply(plane, json.loads(json.dumps(made)))
    manager = cluster.start("manager", MANAGER, "manager-early")

    said = "the API server does not serve ProvisioningRequest; install the CustomResourceDefinition"
    eventually("readiness says why", lambda: said in manager.get("/readyz")[1])
    assert manager.get("/readyz")[0] == 503
    for about in (check, _POLICY):
        told = eventually(f"{about} says why", partial(_missing, plane, about))
        assert said in told["message"]
    assert _active(plane.call("GET", check)) == "False"

    plane.define([cluster.asking])
    eventually("it is ready", manager.is_ready)
    eventually("the check is active", lambda: _active(plane.call("GET", check)) == "True")
    manager.child.send_signal(signal.SIGTERM)
    assert manager.child.wait(PATIENCE) == 0


def _missing(plane: ControlPlane, about: str) -> dict[str, Any] | None:
    """The one condition of a check or policy, once it is about kinds that are not there."""
    found: list[dict[str, Any]] = plane.call("GET", about).get("status", {}).get("conditions") or []
    assert len(found) <= 1, found
    return next((each for each in found if each["reason"] == "KindsMissing"), None)


def _active(check: dict[str, Any]) -> str:
    conditions = check.get("status", {}).get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == "Active"), "")
