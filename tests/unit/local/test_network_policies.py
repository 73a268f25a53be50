"""Which packets are judged, and what a machine does whose kernel cannot queue them."""

import os
import subprocess
from pathlib import Path

import pytest

from muster.local.cluster import control, network, network_policies
from muster.render.tenancy import team as tenancy_networks

JUDGED = ("--append", "MUSTER-POLICIES", "--jump", "NFQUEUE", "--queue-num", "100")


def test_packets_are_queued_after_connections_that_were_judged_are_let_through() -> None:
    found = network_policies.rules("6.12.0")
    assert found.index(JUDGED) > next(index for index, rule in enumerate(found) if "--ctstate" in rule)
    assert "--queue-bypass" not in str(found), "a process that is down must not open every pod"


@pytest.mark.parametrize(("release", "spared"), [("6.1.0-18-amd64", True), ("6.12.3", False), ("odd", True)])
def test_a_kernel_that_loses_queued_lookups_gets_them_unqueued(release: str, spared: bool) -> None:
    found = network_policies.rules(release)
    lookups = [rule for rule in found if "udp" in rule]
    assert bool(lookups) is spared
    assert all(found.index(rule) < found.index(JUDGED) for rule in lookups)


def test_a_machine_that_refuses_a_rule_is_left_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def refusing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        code = 2 if "NFQUEUE" in command else 0
        return subprocess.CompletedProcess(
            command, code, "", "No chain/target/match by that name." if code else ""
        )

    monkeypatch.setattr(network_policies, "_bridge_obstacle", lambda: "")
    monkeypatch.setattr(network_policies, "_queue_obstacle", lambda: "")
    monkeypatch.setattr(subprocess, "run", refusing)
    why = network_policies.enforce()
    assert "No chain/target/match by that name." in why
    assert "--delete-chain" in asked[-1]
    assert not [command for command in asked if "FORWARD" in command and "--append" in command]


def test_pods_of_a_node_do_not_reach_each_other_by_link_local_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """IPv6 is nothing that a policy of the cluster is asked about."""
    dropped: set[str] = set()

    def accepting(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[0] == "ip6tables" and command[-1] == "DROP":
            dropped.add(command[command.index("--append") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(network_policies, "_BRIDGED", tmp_path / "bridge-nf-call-iptables")
    monkeypatch.setattr(network_policies, "_queue_obstacle", lambda: "")
    monkeypatch.setattr(network_policies, "_V6_INTERFACES", tmp_path)
    monkeypatch.setattr(subprocess, "run", accepting)
    assert network_policies.enforce() == ""
    assert dropped == {"FORWARD", "INPUT"}
    assert (tmp_path / "bridge-nf-call-ip6tables").read_text() == "1"


def test_a_kernel_without_bridged_packets_names_the_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(network_policies, "_BRIDGED", tmp_path / "absent" / "bridge-nf-call-iptables")
    monkeypatch.setattr(subprocess, "run", absent)
    assert "br_netfilter" in network_policies.enforce()


def test_a_module_that_we_load_changes_nothing_for_bridges_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel begins with 1, and then virtual machines' packets pass the machine's iptables."""
    settings = [tmp_path / "bridge" / f"bridge-nf-call-{kind}tables" for kind in ("arp", "ip", "ip6")]

    def loaded(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        settings[0].parent.mkdir()
        for setting in settings:
            setting.write_text("1")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(network_policies, "_BRIDGED", settings[1])
    monkeypatch.setattr(subprocess, "run", loaded)
    network_policies.load_module()
    assert [setting.read_text() for setting in settings] == ["0", "0", "0"]

    settings[1].write_text("1")
    network_policies.load_module()
    assert settings[1].read_text() == "1", "a module that was there keeps what the machine set"


def test_a_command_that_hangs_is_a_reason_and_no_end_of_the_supervisor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hanging(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 30)

    monkeypatch.setattr(subprocess, "run", hanging)
    monkeypatch.setattr(network_policies, "_bridge_obstacle", lambda: "")
    monkeypatch.setattr(network_policies, "_queue_obstacle", lambda: "")
    assert "timed out after 30 seconds" in network_policies.enforce()
    monkeypatch.setattr(network_policies, "_BRIDGED", tmp_path / "absent" / "bridge-nf-call-iptables")
    network_policies.load_module()
    assert "timed out" in network_policies.obstacle()


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_looking_whether_this_machine_can_changes_nothing_on_it() -> None:
    def rules() -> list[str]:
        shown = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
        return [line for line in shown.splitlines() if line.startswith("-")]

    before = rules()
    network_policies.obstacle()
    assert rules() == before


def test_status_notes_that_policies_are_not_enforced_and_why() -> None:
    (note,) = control.notes_of({"networkPolicies": {"enforced": False, "why": "no queue"}})
    assert "not enforced" in note
    assert "no queue" in note
    assert control.notes_of({"networkPolicies": {"enforced": True, "why": ""}}) == []
    (note,) = control.notes_of({})
    assert "older Muster" in note


def test_lookups_go_to_the_port_that_policies_of_teams_open() -> None:
    """A NetworkPolicy is about the pods' own port: what the Service makes of it comes before."""
    (service,) = [each for each in network.coredns_objects("image") if each["kind"] == "Service"]
    opened = {port.get("targetPort", port["port"]) for port in service["spec"]["ports"]}
    assert opened == {tenancy_networks.DNS_PORT}
    (config,) = [each for each in network.coredns_objects("image") if each["kind"] == "ConfigMap"]
    assert config["data"]["Corefile"].startswith(f".:{tenancy_networks.DNS_PORT} ")
