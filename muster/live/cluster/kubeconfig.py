"""The client of the cluster that a kubeconfig names."""

from pathlib import Path

from muster.kubernetes.credentials import Credentials
from muster.kubernetes.kubeconfig import KubeconfigError, load_access
from muster.live.web import Web


def connect(path: Path, *, context: str = "") -> Web:
    """A client for the cluster of one context, by default the current one."""
    access = load_access(path, context)
    if not access.server.startswith("https://"):
        raise KubeconfigError(
            f"{path}: the cluster of context {access.context!r} has no https:// server.",
            fix="set its `server`.",
        )
    credentials = Credentials(access)
    headers = {"Accept": "application/json", **credentials.headers()}
    return Web(base=access.server, headers=headers, context=credentials.tls(), proxy=access.proxy)
