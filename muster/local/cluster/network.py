"""Links and routes, one virtual cable from the host into the local cluster, and its DNS: CoreDNS as a
Deployment on the system node, with nowhere to forward to.

The host gets one interface with one address, and neither a firewall rule nor a sysctl. Inside, the default
route leads into a bridge without ports: kube-proxy's rules rewrite addresses of Services only after *some*
route was found, and a local cluster must not reach other networks.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local import LocalClusterError
from muster.local.cluster.local_cluster import DNS_SERVICE, LocalCluster

# The local cluster's own kubectl, for the few objects that make a bare control plane a cluster.

Manifest = dict[str, Any]

_SERVED_PATIENCE: Final = 60


class Kubectl:
    """Runs the pinned kubectl against one local cluster; every call has a timeout."""

    def __init__(self, cluster: LocalCluster, program: str) -> None:
        self._base = [program, f"--kubeconfig={cluster.kubeconfig}", "--request-timeout=20s"]

    def apply(self, objects: list[Manifest]) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.run(
            "apply",
            "--server-side",
            "--field-manager=muster-local-plane",
            "-f",
            "-",
            stdin=document,
            timeout=60,
        )

    def define(self, *folders: Path) -> None:
        """Apply the CustomResourceDefinitions in these folders, and wait until their kinds are served."""
        files = [file for folder in folders for file in sorted(folder.glob("*.yaml"))]
        kinds = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
        self.apply(kinds)
        served = (f"crd/{kind['metadata']['name']}" for kind in kinds)
        self.wait("--for=condition=Established", *served, seconds=_SERVED_PATIENCE)

    def get(self, *arguments: str) -> Manifest:
        answer: Manifest = json.loads(self.run("get", *arguments, "-o", "json"))
        return answer

    def wait(self, *arguments: str, seconds: int) -> None:
        self.run("wait", *arguments, f"--timeout={seconds}s", timeout=seconds + 10)

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 30) -> str:
        try:
            done = subprocess.run(
                [*self._base, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalClusterError(
                "kubectl " + " ".join(arguments[:2]),
                f"gave no answer in {timeout:.0f} s",
                fix="muster local status",
            ) from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise LocalClusterError("kubectl " + " ".join(arguments[:2]), last, fix="muster local status")
        return done.stdout


_INSIDE: Final = "uplink"


def host_addresses() -> frozenset[str]:
    shown = json.loads(_ip("-j", "-4", "address", "show"))
    return frozenset(info["local"] for link in shown for info in link.get("addr_info", ()) if "local" in info)


def plug_in(cluster: LocalCluster, init_pid: int) -> None:
    """On the host: lays the cable. The local cluster's services and pods are reached through it."""
    _ip("link", "add", cluster.host_link, "type", "veth", "peer", "name", _INSIDE, "netns", str(init_pid))
    _ip("address", "add", f"{cluster.host_address}/30", "dev", cluster.host_link)
    _ip("link", "set", cluster.host_link, "up")


def unplug(cluster: LocalCluster) -> None:
    """On the host: the cable normally goes with the namespace; this is for a half-made local cluster."""
    subprocess.run(["ip", "link", "delete", cluster.host_link], capture_output=True, timeout=10, check=False)


def is_plugged_in() -> bool:
    """Inside: whether the host has laid the cable."""
    return _INSIDE in _ip("-br", "link", "show")


def configure_inside(cluster: LocalCluster) -> None:
    """Inside: addresses, routes and the forwarding that pods need; sysctls of this namespace alone."""
    _ip("link", "set", "lo", "up")
    _ip("address", "add", f"{cluster.address}/30", "dev", _INSIDE)
    _ip("link", "set", _INSIDE, "up")
    _ip("link", "add", "nowhere", "type", "bridge")
    _ip("link", "set", "nowhere", "up")
    _ip("route", "add", "default", "dev", "nowhere")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def delete_bridge(name: str) -> None:
    subprocess.run(["ip", "link", "delete", name], capture_output=True, timeout=10, check=False)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise LocalClusterError(
            "ip " + " ".join(arguments),
            done.stderr.strip(),
            fix="the kernel or a sandbox forbids it; see `dmesg`",
        )
    return done.stdout


_COREFILE: Final = """\
.:53 {
    errors
    health :8080
    ready :8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }
    cache 5
    reload
}
"""
_LABELS: Final = {"k8s-app": "kube-dns"}
_META: Final = {"name": "coredns", "namespace": "kube-system"}


def coredns_objects(image: str) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _META},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:coredns",
            },
            "subjects": [{"kind": "ServiceAccount", **_META}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _META, "data": {"Corefile": _COREFILE}},
        _deployment(image),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": _LABELS},
            "spec": {
                "clusterIP": DNS_SERVICE,
                "selector": _LABELS,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        },
    ]


def _deployment(image: str) -> dict[str, Any]:
    container = {
        "name": "coredns",
        "image": image,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "170Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"muster.dev/pool": "system"},
        "dnsPolicy": "Default",
        # A NetworkPolicy opens the port of the pods, not the Service's, and everywhere that is 53.
        "securityContext": {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_META, "labels": _LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }
