"""Carries out `muster record` with the cluster of a kubeconfig.

Apart from the command, because its imports take longer than printing `--help` may.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from muster.cli.output import note
from muster.controller.kube.connection import Connection
from muster.live.cluster.kubeconfig import connect
from muster.live.web import Web
from muster.replay import recorder
from muster.replay.recorder import Order
from muster.replay.recording import RecordingError

_BEARER: Final = "Bearer "


def record(order: Order, kubeconfig: Path, *, context: str) -> int:
    """Record into a file; how many jobs were seen."""
    return recorder.record(order, lambda: connection(connect(kubeconfig, context=context)), note)


def connection(web: Web) -> Connection:
    """How the watch reaches the server that `web` reaches."""
    authorization = web.headers.get("Authorization", "")
    if web.proxy or (authorization and not authorization.startswith(_BEARER)):
        raise RecordingError(
            f"{web.base}: a proxy or a password in the kubeconfig is not supported here.",
            fix="use a context with a token, a certificate or a credential plugin, and no proxy-url.",
        )
    token = authorization.removeprefix(_BEARER) or None
    return Connection(web.base, context=web.context, token=token)
