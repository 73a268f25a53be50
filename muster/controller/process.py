"""Builds the parts of one process from its settings.

The manager and the webhooks share most parts; the election, the uninstall handlers and the keeping of
certificates are the manager's, the server the webhooks'.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.runtime.certificates import (
    MUTATING,
    VALIDATING,
    CertificateKeeper,
    CertificateReader,
    Configuration,
)
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.lease import LeaderElection
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.removal import Removal
from muster.controller.runtime.review import Webhook
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.webhook_server import WebhookServer
from muster.model import names

Webhooks = Callable[[Manager], Sequence[Webhook[Any]]]

LAME_DUCK: Final = 5.0
"""Seconds in which the webhooks go on answering after SIGTERM: endpoints take that long to forget a pod."""


@dataclass(frozen=True, slots=True)
class Process:
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
        manager = self._assembled(election=election, removal=removal)
        service = f"{settings.service_name}.{settings.namespace}"
        keeper = CertificateKeeper(
            self.client,
            secret=self._secret,
            names=(f"{service}.svc", service, f"{service}.svc.cluster.local"),
            configurations=[Configuration(VALIDATING, name) for name in settings.validating or ()]
            + [Configuration(MUTATING, name) for name in settings.mutating or ()],
            metrics=self.metrics,
        )
        manager.health.ready_when("certificates", keeper.ready)
        manager.service("certificates", keeper.run)
        return manager

    def webhooks(self, webhooks: Webhooks) -> Manager:
        settings = self.settings
        manager = self._assembled(lame_duck=LAME_DUCK)
        server = WebhookServer(
            webhooks(manager),
            metrics=self.metrics,
            port=settings.webhook_port,
            unready=manager.unsynced,
            is_ending=manager.is_stopping,
            traces=self.traces,
        )
        reader = CertificateReader(self.client, secret=self._secret, server=server, metrics=self.metrics)
        manager.health.ready_when("webhook server", server.ready)
        manager.service("webhook server", server.run)
        manager.service("certificates", reader.run)
        return manager

    @property
    def _secret(self) -> Key:
        return Key(self.settings.namespace, self.settings.secret_name)

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
            reads_events=getattr(self.settings, "read_events", False),
            deletes_without_quota=getattr(self.settings, "delete_without_quota", None),
            makes_compute_domains=getattr(self.settings, "compute_domains", False),
            closes_nodes=getattr(self.settings, "set_aside_broken_nodes", False),
            gated_kinds=getattr(self.settings, "gate", None) or (),
        )
