"""NetworkPolicies of a local cluster: which packets are judged, and whether this machine can judge them.

The kernel queues the first packet of every connection from or to a pod, after Services have become pods and
before any address is masqueraded. The process `network-policies` accepts or drops it. While that process is
down, no pod opens a connection. The cluster has no IPv6: packets between the link-local addresses that the
kernel gives every interface are dropped. What the cluster's own processes and kubelets send to pods is not
judged, as on every node of Kubernetes.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from muster.local.cluster.local_cluster import POD_CIDR
from muster.paths import IMPORT_ROOT

UNIT: Final = "network-policies"
USER: Final = "muster-network-policies"
QUEUE: Final = 100
_CHAIN: Final = "MUSTER-POLICIES"
_V6_DROPS: Final = (
    ("FORWARD", "--jump", "DROP"),
    ("INPUT", "!", "--in-interface", "lo", "--jump", "DROP"),
)
_V6_INTERFACES: Final = Path("/proc/net/if_inet6")
_BRIDGED: Final = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
# Older kernels drop one of two lookups that a resolver sends from one port at once when both are queued, and
# each lookup then takes five seconds: https://bugzilla.netfilter.org/show_bug.cgi?id=1766
_QUEUES_DNS: Final = (6, 12)
_UNANSWERED: Final = (OSError, subprocess.SubprocessError)

# linux/netlink.h, linux/netfilter/nfnetlink.h and nfnetlink_queue.h; the module socket has no such constants.
_NETLINK_NETFILTER: Final = 12
_NLMSG_ERROR: Final = 2
_REQUEST_AND_ACK: Final = 1 | 4
_QUEUE_CONFIG: Final = 3 << 8 | 2
_CONFIG_COMMAND: Final = 1
_BIND: Final = 1


def enforce() -> str:
    """Inside the cluster's network namespace: make the rules. Returns why not; "" when they are in force.

    The host has called load_module before. The rules go with the namespace.
    """
    if missing := _bridge_obstacle() or _queue_obstacle():
        return missing
    made = [("iptables", rule) for rule in rules(platform.release())]
    if _V6_INTERFACES.exists():
        made += [("ip6tables", ("--append", *drop)) for drop in _V6_DROPS]
    for program, rule in made:
        if refusal := _iptables(rule, program=program):
            _clear()
            return f"{program} refuses `{' '.join(rule)}`: {refusal}"
    return ""


def load_module() -> None:
    """On the host, as root: load br_netfilter where it is absent, without effect on the host's own bridges.

    Every network namespace begins with bridged packets passing iptables, and the host has the module loaded
    from then on: what its bridges carry, such as the packets of virtual machines, is to go on as before.
    """
    if _BRIDGED.exists():
        return
    try:
        subprocess.run(["modprobe", "br_netfilter"], capture_output=True, timeout=30, check=False)
        for setting in _BRIDGED.parent.glob("bridge-nf-call-*tables"):
            setting.write_text("0")
    except _UNANSWERED:
        return  # enforce() finds that the module is absent, and reports it.


def obstacle() -> str:
    """On the host, as root: why a cluster on this machine would not enforce them; "" when it would."""
    load_module()
    command = ["unshare", "--net", "--", sys.executable, "-m", "muster.local.cluster.network_policies"]
    environment = {**os.environ, "PYTHONPATH": str(IMPORT_ROOT)}
    done = _run(command, environment, seconds=60)
    return done if isinstance(done, str) else done.stdout.strip()


def notice(why: str) -> str:
    """What `up`, `status` and `doctor` print where NetworkPolicies are not enforced."""
    return (
        f"NetworkPolicies are stored and not enforced on this machine, teams reach each other's pods: {why}"
    )


def rules(release: str) -> list[tuple[str, ...]]:
    """Arguments of iptables in the table `mangle`, in order. `release`: of the kernel, such as "6.1.0-18"."""
    judged = ("--append", _CHAIN)
    found: list[tuple[str, ...]] = [
        ("--new-chain", _CHAIN),
        (*judged, "--match", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "--jump", "RETURN"),
    ]
    if _version(release) < _QUEUES_DNS:
        found.append((*judged, "--protocol", "udp", "--dport", "53", "--jump", "RETURN"))
    return [
        *found,
        (*judged, "--jump", "NFQUEUE", "--queue-num", str(QUEUE)),
        ("--append", "FORWARD", "--jump", _CHAIN),
        # To the API server, a kubelet or another process of the cluster.
        ("--append", "INPUT", "--source", POD_CIDR, "--jump", _CHAIN),
    ]


def objects() -> list[dict[str, Any]]:
    """What the process may read."""
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": USER},
            "rules": [
                {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
                {
                    "apiGroups": ["networking.k8s.io"],
                    "resources": ["networkpolicies"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        },
    ]


def _bridge_obstacle() -> str:
    """Pods of one node are ports of one bridge: without br_netfilter their packets pass netfilter by."""
    try:
        for setting in (_BRIDGED, _BRIDGED.with_name("bridge-nf-call-ip6tables")):
            setting.write_text("1")
    except FileNotFoundError:
        return "the kernel module br_netfilter is not loaded, and `modprobe br_netfilter` does not load it"
    except OSError as error:
        return f"{_BRIDGED} cannot be written: {error.strerror}"
    return ""


def _queue_obstacle() -> str:
    """Whether a process can bind a queue (CONFIG_NETFILTER_NETLINK_QUEUE); bound for a moment to see it."""
    command = struct.pack("=HHBBH", 8, _CONFIG_COMMAND, _BIND, 0, 0)
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, QUEUE) + command
    header = struct.pack("=IHHII", 16 + len(body), _QUEUE_CONFIG, _REQUEST_AND_ACK, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as line:
            line.settimeout(10)
            line.bind((0, 0))
            line.send(header + body)
            answer = line.recv(4096)
    except OSError as error:
        return f"netfilter's queues cannot be opened: {error.strerror or error}"
    (kind,) = struct.unpack_from("=H", answer, 4)
    (code,) = struct.unpack_from("=i", answer, 16)
    if kind == _NLMSG_ERROR and code == 0:
        return ""
    known = "the kernel has no module nfnetlink_queue" if -code == errno.EINVAL else os.strerror(-code)
    return f"netfilter's queues cannot be bound: {known}"


def _clear() -> None:
    """A rule that queues packets which no process judges would cut every pod off."""
    for drop in _V6_DROPS:
        _iptables(("--delete", *drop), program="ip6tables")
    for rule in (
        ("--delete", "FORWARD", "--jump", _CHAIN),
        ("--delete", "INPUT", "--source", POD_CIDR, "--jump", _CHAIN),
        ("--flush", _CHAIN),
        ("--delete-chain", _CHAIN),
    ):
        _iptables(rule)


def _iptables(rule: tuple[str, ...], *, program: str = "iptables") -> str:
    """Its message when it refuses the rule, otherwise ""."""
    done = _run([program, "--wait", "5", "--table", "mangle", *rule], os.environ, seconds=30)
    return done if isinstance(done, str) else ""


def _run(
    command: Sequence[str], environment: Mapping[str, str], *, seconds: float
) -> subprocess.CompletedProcess[str] | str:
    """The command when it succeeded, otherwise why not."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except _UNANSWERED as error:
        return str(error)
    return done if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _version(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


if __name__ == "__main__":
    print(enforce())
