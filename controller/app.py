"""The two programs of the image: `manager` reconciles, `webhooks` answers the API server.

Decides flags, their environment variables and how the parts of a process are put together. Leaves what is
reconciled and reviewed to the functions that `__main__` passes in. Two processes, because a slow reconcile
must not delay a review, and because they need different permissions.
"""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from controller.kube.client import Client
from controller.kube.connection import Connection, ConnectionSettingsError, in_cluster, kubeconfig
from controller.kube.resource import Key
from controller.kube.transport import Everybody
from controller.runtime import logs
from controller.runtime.certificates import MUTATING, VALIDATING, CertificateKeeper, Configuration
from controller.runtime.events import EventRecorder
from controller.runtime.health import Health
from controller.runtime.lease import LeaderElection
from controller.runtime.manager import Manager, stop_on_signals
from controller.runtime.metrics import Metrics
from controller.runtime.removal import Removal
from controller.runtime.review import Webhook
from controller.runtime.traces import Traces, configured
from controller.runtime.webhook_server import WebhookServer
from model import names

Register = Callable[[Manager], Awaitable[None]]
Webhooks = Callable[[Manager], Sequence[Webhook[Any]]]

LAME_DUCK = 5.0
"""Seconds in which the webhooks go on answering after SIGTERM: endpoints take that long to forget a pod."""

PROGRAM = "gang-admission"


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line. Every flag has an environment variable, named in its help; the flag wins."""
    program = argparse.ArgumentParser(
        prog="python3 -m controller",
        description="Muster's gang-admission controller: a gang gets all its capacity, or none is held.",
        epilog="Exit codes: 0 stopped by a signal, 1 ended by an error or a lost lease, 2 wrong settings.",
    )
    commands = program.add_subparsers(dest="command", required=True, metavar="{manager,webhooks}")
    for name, text in (
        ("manager", "let gangs start; several replicas elect one that acts"),
        ("webhooks", "answer admission reviews over TLS; every replica serves"),
    ):
        command = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        _common_flags(command, environment)
        (_manager_flags if name == "manager" else _webhook_flags)(command, environment)
    return program


def _common_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--namespace",
        default=environment.get("POD_NAMESPACE", names.SYSTEM_NAMESPACE),
        help="where our own Lease, Secret and Service live [POD_NAMESPACE]",
    )
    command.add_argument(
        "--identity",
        default=environment.get("POD_NAME", socket.gethostname()),
        help="the name of this replica in the Lease and in Events; must be unique [POD_NAME]",
    )
    command.add_argument(
        "--health-port",
        type=_port,
        default=environment.get("MUSTER_HEALTH_PORT", "8080"),
        help="plain HTTP port of /healthz, /readyz and /metrics [MUSTER_HEALTH_PORT]",
    )
    command.add_argument(
        "--log-level",
        choices=logs.LEVELS,
        default=environment.get("MUSTER_LOG_LEVEL", "info"),
        help="least severe lines to print [MUSTER_LOG_LEVEL]",
    )
    command.add_argument(
        "--kubeconfig",
        type=Path,
        default=environment.get("MUSTER_KUBECONFIG"),
        help="a kubeconfig in JSON, for running outside a pod; `kubectl config view --raw --minify -o json` "
        "writes one [MUSTER_KUBECONFIG]",
    )


def _manager_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=environment.get("MUSTER_LEADER_ELECT", "true") != "false",
        help="act only while holding the Lease; turn it off for a single replica only [MUSTER_LEADER_ELECT]",
    )
    command.add_argument("--lease-name", default=PROGRAM, help="name of the Lease")
    command.add_argument(
        "--deployment",
        default=environment.get("MUSTER_DEPLOYMENT", ""),
        metavar="NAME",
        help="the Deployment that this is a replica of: when it goes, waiting gangs are told and give back "
        "what they hold [MUSTER_DEPLOYMENT]",
    )


def _webhook_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--webhook-port",
        type=_port,
        default=environment.get("MUSTER_WEBHOOK_PORT", "9443"),
        help="HTTPS port of the reviews [MUSTER_WEBHOOK_PORT]",
    )
    command.add_argument(
        "--service-name",
        default=f"{PROGRAM}-webhooks",
        help="the Service that the API server calls us through",
    )
    command.add_argument(
        "--secret-name", default=f"{PROGRAM}-certificates", help="the Secret that keeps our certificates"
    )
    command.add_argument(
        "--validating",
        action="append",
        metavar="NAME",
        help="a ValidatingWebhookConfiguration that gets our CA",
    )
    command.add_argument(
        "--mutating", action="append", metavar="NAME", help="a MutatingWebhookConfiguration that gets our CA"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 1 to 65535, or 0 for any free one")
    return int(text)


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
    metrics = Metrics()
    stop = stop_on_signals()
    async with Client(
        connection,
        field_manager=names.FIELD_MANAGER,
        user_agent=f"muster-{settings.command}",
        observer=Everybody((metrics, traces)),
    ) as client:
        process = _Process(settings, client, metrics, traces)
        if settings.command == "manager":
            manager = process.manager()
            await register(manager)
        else:
            manager = process.webhooks(webhooks)
        await manager.run(stop)


@dataclass(frozen=True, slots=True)
class _Process:
    """The parts that both programs are made of."""

    settings: argparse.Namespace
    client: Client
    metrics: Metrics
    traces: Traces

    def manager(self) -> Manager:
        settings, election = self.settings, None
        if settings.leader_elect:
            key = Key(settings.namespace, settings.lease_name)
            election = LeaderElection(self.client, key, identity=settings.identity, metrics=self.metrics)
        own = Key(settings.namespace, settings.deployment)
        removal = Removal(self.client, own) if settings.deployment else None
        return self._assembled(election=election, removal=removal)

    def webhooks(self, webhooks: Webhooks) -> Manager:
        settings = self.settings
        manager = self._assembled(lame_duck=LAME_DUCK)
        server = WebhookServer(
            webhooks(manager),
            metrics=self.metrics,
            port=settings.webhook_port,
            unready=manager.unsynced,
            traces=self.traces,
        )
        service = f"{settings.service_name}.{settings.namespace}"
        keeper = CertificateKeeper(
            self.client,
            secret=Key(settings.namespace, settings.secret_name),
            names=(f"{service}.svc", service, f"{service}.svc.cluster.local"),
            configurations=[Configuration(VALIDATING, name) for name in settings.validating or ()]
            + [Configuration(MUTATING, name) for name in settings.mutating or ()],
            server=server,
            metrics=self.metrics,
        )
        manager.health.ready_when("webhook server", server.ready)
        manager.service("webhook server", server.run)
        manager.service("certificates", keeper.run)
        return manager

    def _assembled(
        self,
        *,
        election: LeaderElection | None = None,
        lame_duck: float = 0.0,
        removal: Removal | None = None,
    ) -> Manager:
        recorder = EventRecorder(
            self.client,
            reporter=names.CONTROLLER_NAME,
            instance=self.settings.identity,
            metrics=self.metrics,
        )
        return Manager(
            self.client,
            metrics=self.metrics,
            health=Health(self.metrics, port=self.settings.health_port),
            events=recorder,
            election=election,
            lame_duck=lame_duck,
            traces=self.traces,
            removal=removal,
        )
