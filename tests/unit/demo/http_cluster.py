"""A `Cluster` of the examples whose API server is a URL."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.local.demo.cluster import Cluster


def kubeconfig_at(url: str, folder: Path) -> Path:
    """The kubeconfig of an API server, in `folder`."""
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def cluster_at(url: str, folder: Path, *, say: Callable[[str], None] = lambda _: None) -> Cluster:
    return Cluster(str(kubeconfig_at(url, folder)), say=say)
