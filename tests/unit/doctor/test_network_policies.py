"""Two pods show whether a network enforces NetworkPolicies; what the cluster gets is deleted in any case."""

import json
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.cloud.doctor.cluster_checks import Clock, check_network_policies
from muster.cloud.doctor.findings import Finding, State
from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError
from muster.kubernetes.kubeconfig import Access
from muster.model.clusters import Provider
from muster.render import network_probe
from muster.render.network_probe import program
from tests.unit.model.model_stacks import new_stack
from tests.unit.preview.http_world import Asked, Reply, serving


class VirtualTime:
    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


def probed(reached: Any, time: VirtualTime) -> int:
    return program.probe("host", reached=reached, now=lambda: time.now, wait=time.wait)


def test_a_policy_counts_as_enforced_once_its_closed_port_is_silent_and_the_open_one_answers() -> None:
    time = VirtualTime()
    # The other pod comes after 20 s, and the policy 5 s later.
    assert (
        probed(lambda _, port: time.now >= 20 and (port == program.OPEN_PORT or time.now < 25), time)
        == program.ENFORCED
    )
    assert time.now == 25


def test_a_closed_port_that_answers_all_the_time_is_not_enforced() -> None:
    time = VirtualTime()
    assert probed(lambda *_: True, time) == program.NOT_ENFORCED
    assert time.now == program.ENFORCED_WITHIN


def test_a_pod_that_is_never_reached_decides_nothing() -> None:
    assert probed(lambda *_: False, VirtualTime()) == program.UNREACHED


@pytest.mark.parametrize("answers", [1, 2])
def test_a_pod_that_went_away_decides_nothing(answers: int) -> None:
    asked = iter([True] * answers)
    assert probed(lambda *_: next(asked, False), VirtualTime()) == program.UNREACHED


def test_the_listening_pod_answers_at_both_ports_and_ends_with_the_other() -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("", 0))
        other.bind(("", 0))
        opened, closed = one.getsockname()[1], other.getsockname()[1]
    listening = threading.Thread(
        target=program.listen, kwargs={"open_port": opened, "closed_port": closed}, daemon=True
    )
    listening.start()
    time = VirtualTime()
    real = {program.OPEN_PORT: opened, program.CLOSED_PORT: closed}
    assert not program.reach("127.0.0.1", 1)
    while not program.reach("127.0.0.1", opened):
        assert listening.is_alive()
    assert probed(lambda _, port: program.reach("127.0.0.1", real[port]), time) == program.NOT_ENFORCED
    assert listening.is_alive()
    program.reach("127.0.0.1", opened, message=b"done")
    listening.join(timeout=60)
    assert not listening.is_alive()


# ---- the doctor --------------------------------------------------------------------

IMAGE = "registry.test/gang-admission@sha256:" + "ab" * 32


@dataclass
class Cluster:
    """What the API server answers. `code`: the probing pod's exit code; None while it runs."""

    code: int | None = None
    conditions: list[dict[str, str]] = field(default_factory=list)
    refused: str = ""
    made: dict[str, Any] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def answer(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        kind = path.split("/")[-1]
        if asked.method == "POST":
            body: Any = asked.body
            if body["kind"] == self.refused:
                return Reply(403, {"message": "not allowed"})
            self.made[body["kind"]] = body
            return Reply(201, {**body, "metadata": {**body["metadata"], "uid": "u-1"}})
        if asked.method == "DELETE":
            self.deleted.append(asked.path)
            return Reply(200, {})
        if kind == "gang-admission-manager":
            pod = {"containers": [{"image": IMAGE}], "nodeSelector": {"muster.dev/pool": "system"}}
            return Reply(200, {"spec": {"template": {"spec": pod}}})
        if kind == "pods":
            return Reply(200, {"items": [self._pod()]})
        return Reply(200, {"status": {"conditions": self.conditions}})

    def _pod(self) -> dict[str, Any]:
        state = {"waiting": {"reason": "ImagePullBackOff"}}
        if self.code is not None:
            state = {"terminated": {"exitCode": self.code}}  # type: ignore[dict-item]
        return {
            "metadata": {"name": "p-1", "labels": {network_probe.INDEX_LABEL: network_probe.PROBER}},
            "status": {"phase": "Pending", "containerStatuses": [{"state": state}]},
        }


def check(cluster: Cluster, provider: Provider = Provider.EKS) -> Finding:
    time = VirtualTime()
    with serving(cluster.answer) as server:
        api = Client(Access(server=server.url))
        (found,) = check_network_policies(
            new_stack(provider), api, Clock(now=lambda: time.now, wait=time.wait)
        )
    return found


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (program.ENFORCED, State.OK, "enforced"),
        (program.NOT_ENFORCED, State.FAILED, "NOT enforced"),
        (program.UNREACHED, State.UNKNOWN, "never reached"),
        (137, State.UNKNOWN, "p-1 is Pending"),
    ],
)
def test_the_verdict_is_the_probing_pods(code: int, state: State, words: str) -> None:
    cluster = Cluster(code)
    found = check(cluster)
    assert (found.state, words in found.message) == (state, True)
    (deleted,) = cluster.deleted
    name = cluster.made["Job"]["metadata"]["name"]
    assert deleted.endswith(f"/jobs/{name}?propagationPolicy=Background")


def test_the_fix_is_that_of_the_cloud() -> None:
    assert "enableNetworkPolicy" in check(Cluster(program.NOT_ENFORCED)).fix
    assert "Dataplane V2" in check(Cluster(program.NOT_ENFORCED), Provider.GKE).fix
    assert "Cilium" in check(Cluster(program.NOT_ENFORCED), Provider.EXISTING).fix


def test_pods_that_never_start_are_waited_for_up_to_a_bound_and_shown() -> None:
    cluster = Cluster()
    found = check(cluster)
    assert found.state is State.UNKNOWN
    assert "ImagePullBackOff" in found.message
    assert cluster.deleted


def test_a_cluster_that_takes_no_policy_keeps_nothing_of_ours() -> None:
    cluster = Cluster(refused="NetworkPolicy")
    with pytest.raises(ApiError, match="not allowed"):
        check(cluster)
    assert cluster.deleted


def test_everything_goes_with_the_job_also_where_the_command_is_killed() -> None:
    cluster = Cluster(program.ENFORCED)
    check(cluster)
    job = cluster.made["Job"]
    assert job["spec"]["ttlSecondsAfterFinished"] == 60
    assert job["spec"]["activeDeadlineSeconds"] == network_probe.MOST_SECONDS
    for kind in ("NetworkPolicy", "Service"):
        (owner,) = cluster.made[kind]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", job["metadata"]["name"], "u-1")


def test_the_pods_have_the_controllers_image_and_nodes_and_no_right() -> None:
    cluster = Cluster(program.ENFORCED)
    check(cluster)
    pod = cluster.made["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["nodeSelector"] == {"muster.dev/pool": "system"}
    assert pod["automountServiceAccountToken"] is False


def test_without_a_controller_nothing_is_made() -> None:
    def answer(_: Asked) -> Reply:
        return Reply(404, {"message": "not found"})

    with serving(answer) as server:
        (found,) = check_network_policies(new_stack(Provider.EKS), Client(Access(server=server.url)))
        assert [each.method for each in server.asked] == ["GET"]
    assert found.state is State.UNKNOWN
    assert "pulumi up" in found.fix


def test_policy_and_names_select_the_pods_of_the_job_that_is_made() -> None:
    policy, service, job = network_probe.objects(image="i", node_selector={})
    name = job["metadata"]["name"]
    listener = {network_probe.JOB_LABEL: name, network_probe.INDEX_LABEL: network_probe.LISTENER}
    assert policy["spec"]["podSelector"]["matchLabels"] == listener
    (rule,) = policy["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [program.OPEN_PORT]
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert pod["containers"][0]["command"][-1].startswith(f"{name}-0.{name}.muster-system")
    assert "$(" not in json.dumps(pod["containers"][0]["command"][2]), "Kubernetes would replace it"
