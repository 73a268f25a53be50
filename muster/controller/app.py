"""The two programs of the image: `manager` reconciles, `webhooks` answers the API server.

Responsible for how a program starts and for its exit code. `__main__` passes in what is reconciled and
reviewed; the settings are flags.py's, the parts process.py's. Two processes, because a slow reconcile must
not delay a review, and because they need different permissions.
"""

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from muster.controller.flags import parser
from muster.controller.kube.client import Client
from muster.controller.kube.connection import Connection, ConnectionSettingsError, in_cluster, kubeconfig
from muster.controller.kube.transport import CompositeObserver
from muster.controller.process import Process, Webhooks
from muster.controller.runtime import logs
from muster.controller.runtime.manager import Manager, stop_on_signals
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.traces import configured
from muster.model import names

Register = Callable[[Manager], Awaitable[None]]


def main(
    arguments: Sequence[str] | None = None,
    *,
    register: Register,
    webhooks: Webhooks,
    environment: Mapping[str, str] = os.environ,
) -> int:
    """Run one of the two programs to its end and return its exit code."""
    settings = parser(environment).parse_args(arguments)
    logs.configure(settings.log_level)
    log = structlog.get_logger(settings.command)
    try:
        connection = kubeconfig(settings.kubeconfig) if settings.kubeconfig else in_cluster(environment)
    except ConnectionSettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    traces = configured(environment, instance=settings.identity)
    try:
        asyncio.run(_run(settings, connection, register=register, webhooks=webhooks, traces=traces))
    except BaseException as error:
        for cause in _causes(error):
            log.error("ended", error=str(cause), error_type=type(cause).__name__, exc_info=cause)
        return 1
    finally:
        traces.close()
    log.info("stopped")
    return 0


def _causes(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [error]


async def _run(
    settings: argparse.Namespace,
    connection: Connection,
    *,
    register: Register,
    webhooks: Webhooks,
    traces: Traces,
) -> None:
    gc.freeze()  # What was imported stays: every full collection would look through all of it.
    metrics = Metrics()
    stop = stop_on_signals()
    async with Client(
        connection,
        field_manager=names.FIELD_MANAGER,
        user_agent=f"muster-{settings.command}",
        observer=CompositeObserver((metrics, traces)),
    ) as client:
        process = Process(settings, client, metrics, traces)
        if settings.command == "manager":
            manager = process.manager()
            await register(manager)
        else:
            manager = process.webhooks(webhooks)
        await manager.run(stop)
