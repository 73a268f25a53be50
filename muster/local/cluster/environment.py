"""The environment in which `pulumi`, `kubectl` and the examples work on a local cluster."""

from __future__ import annotations

import json
import os

from muster.local.cluster.local_cluster import LocalCluster


def environment(cluster: LocalCluster) -> dict[str, str]:
    """What `pulumi`, `kubectl` and the examples need to work on this local cluster and on no other."""
    tools = json.loads(cluster.artifacts.read_text())["path"]
    return {
        "KUBECONFIG": str(cluster.kubeconfig),
        "MUSTER_ARTIFACTS": str(cluster.artifacts),
        "PULUMI_BACKEND_URL": f"file://{cluster.pulumi_state}",
        "PULUMI_CONFIG_PASSPHRASE": "",  # the state dies with the cluster and holds nothing but its objects
        "PULUMI_HOME": str(cluster.state / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PATH": ":".join([tools, os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")]),
    }
