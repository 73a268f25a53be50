"""Rotates the webhook certificates: one Secret, every replica, no restart.

The managers keep the Secret and publish its bundle in the webhook configurations; the webhooks, which
anybody's connection reaches, only read the Secret. All managers run the same keeper on the same Secret; its
resourceVersion lets one of them win. Each look reads the configurations before the Secret and writes them at
the version that it read, so that a replica that was overtaken puts no older bundle back. authority.py
computes what is due; the webhook server does the handshakes.

A webhook configuration that is missing is reported and not made again: `pulumi up` owns it, and an operator
may have deleted it on purpose, because reviews failed.
"""

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec
import structlog

from muster.controller.kube.client import Client
from muster.controller.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.controller.runtime.authority import Lifetimes, Material, from_data, renew, to_data
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.metrics import Metrics

INTERVAL = 10.0
"""Seconds between two looks: a webhook configuration that is new waits this long for its bundle, and one that
was deleted is noticed after this long.
"""
FIRST_INTERVAL = 1.0
"""Seconds between two looks of the webhooks while they have no certificate."""
_MISSING_FIX = "run `pulumi up --refresh`, which creates it again"


class Secret(Object, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)
    type: str = ""


class _ClientConfig(Partial, frozen=True):
    ca_bundle: str = ""


class _Webhook(Partial, frozen=True):
    name: str
    client_config: _ClientConfig = _ClientConfig()


class WebhookConfiguration(Object, frozen=True):
    webhooks: tuple[_Webhook, ...] = ()


_GROUP = "admissionregistration.k8s.io"
SECRET = Resource("", "v1", "secrets", "Secret", namespaced=True, type=Secret)
VALIDATING = Resource(
    _GROUP,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    type=WebhookConfiguration,
)
MUTATING = Resource(
    _GROUP,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    type=WebhookConfiguration,
)


class Server(Protocol):
    """A server that uses the certificate."""

    def use(self, *, certificate: bytes, key: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Configuration:
    """A webhook configuration whose every webhook gets our bundle."""

    resource: Resource[WebhookConfiguration]
    name: str


class CertificateKeeper:
    """Keeps Secret and webhook configurations in step. `names` are the DNS names of the Service."""

    def __init__(
        self,
        client: Client,
        *,
        secret: Key,
        names: tuple[str, ...],
        configurations: Sequence[Configuration],
        metrics: Metrics,
        lifetimes: Lifetimes | None = None,
        wall_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client, self._secret, self._names = client, secret, names
        self._configurations, self._metrics = tuple(configurations), metrics
        self._lifetimes = lifetimes or Lifetimes()
        self._wall_clock = wall_clock
        self._has_published = False
        self._missing: set[Configuration] = set()
        self._log = structlog.get_logger("certificates").bind(secret=str(secret))

    def ready(self) -> str | None:
        """Why reviews cannot work yet; None after the first look that got through: a configuration that is
        missing is reported, and does not keep the manager from its work.
        """
        return None if self._has_published else "its certificate authority is not published yet"

    async def run(self) -> None:
        """Look again and again, forever."""
        while True:
            await _attempt(self.sync, self._log)
            await _pause(INTERVAL)

    async def sync(self) -> None:
        """One look at everything."""
        found = [(each, await self._find(each)) for each in self._configurations]
        material = await self._settle()
        for configuration, held in found:
            if held is not None:
                await self._publish(configuration, held, material)
        self._has_published = True

    async def _settle(self) -> Material:
        """The material of the Secret, renewed and stored when something is due."""
        for _ in range(3):
            try:
                secret: Secret | None = await self._client.get(SECRET, self._secret)
            except NotFound:
                secret = None
            held = _material(secret, self._log)
            wanted = renew(held, names=self._names, now=self._wall_clock(), lifetimes=self._lifetimes)
            if wanted is held:
                return held
            try:
                await self._store(secret, wanted)
            except (Conflict, AlreadyExists):
                continue  # another replica was faster: take what it made
            self._log.info("certificates renewed", authorities=len(wanted.authorities))
            return wanted
        raise Contended(f"other replicas keep changing the Secret {self._secret}")

    async def _store(self, secret: Secret | None, material: Material) -> None:
        metadata: dict[str, Any] = {"name": self._secret.name, "namespace": self._secret.namespace}
        data = {name: base64.b64encode(value).decode("ascii") for name, value in to_data(material).items()}
        if secret is None:
            body = {"metadata": metadata, "type": "Opaque", "data": data}
            await self._client.create(SECRET, body, namespace=self._secret.namespace)
            return
        # A merge patch leaves the labels and owners that others gave the Secret.
        body = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        await self._client.merge_patch(SECRET, self._secret, body)

    async def _find(self, configuration: Configuration) -> WebhookConfiguration | None:
        """One that is not there is reported and looked for next time."""
        try:
            found = await self._client.get(configuration.resource, Key("", configuration.name))
        except NotFound:
            found = None
        self._note(configuration, is_present=found is not None and bool(found.webhooks))
        return found

    async def _publish(
        self, configuration: Configuration, held: WebhookConfiguration, material: Material
    ) -> None:
        """Put the bundle into every webhook of a configuration."""
        bundle = base64.b64encode(material.bundle).decode("ascii")
        if all(webhook.client_config.ca_bundle == bundle for webhook in held.webhooks):
            return
        webhooks = [{"name": hook.name, "clientConfig": {"caBundle": bundle}} for hook in held.webhooks]
        # The uid makes apply fail, not create, where the configuration was deleted in between.
        metadata = {
            "name": configuration.name,
            "uid": held.metadata.uid,
            "resourceVersion": held.metadata.resource_version,
        }
        try:
            await self._client.apply(
                configuration.resource,
                Key("", configuration.name),
                {"metadata": metadata, "webhooks": webhooks},
                force=True,
                field_manager=f"{self._client.field_manager}-certificates",
            )
        except Conflict:
            self._log.info("configuration has changed meanwhile", configuration=configuration.name)
            return
        self._log.info("authorities published", configuration=configuration.name, webhooks=len(webhooks))

    def _note(self, configuration: Configuration, *, is_present: bool) -> None:
        """Report a configuration that calls nothing: objects pass without its defaults and reviews."""
        kind = configuration.resource.kind
        self._metrics.webhook_configuration_present.labels(kind).set(int(is_present))
        if is_present and configuration in self._missing:
            self._missing.remove(configuration)
            self._log.info("webhook configuration is back", kind=kind, configuration=configuration.name)
        elif not is_present and configuration not in self._missing:
            self._missing.add(configuration)
            self._log.error(
                "webhook configuration is missing: objects pass without its webhooks",
                kind=kind,
                configuration=configuration.name,
                fix=_MISSING_FIX,
            )


class CertificateReader:
    """Gives a server the certificate of the Secret, and each later one."""

    def __init__(self, client: Client, *, secret: Key, server: Server, metrics: Metrics) -> None:
        self._client, self._secret = client, secret
        self._server, self._metrics = server, metrics
        self._in_use: bytes = b""
        self._log = structlog.get_logger("certificates").bind(secret=str(secret))

    async def run(self) -> None:
        """Look again and again, forever. After a failure the certificate in use stays in use."""
        while True:
            await _attempt(self.sync, self._log)
            await _pause(INTERVAL if self._in_use else FIRST_INTERVAL)

    async def sync(self) -> None:
        """One look at the Secret. Without one, or with a damaged one, nothing changes: a manager makes it."""
        try:
            secret = await self._client.get(SECRET, self._secret)
        except NotFound:
            return
        material = _material(secret, self._log)
        serving = material.serving
        if serving is None:
            return
        expiry = self._metrics.certificate_expiry
        expiry.labels("serving").set(serving.expires.timestamp())
        expiry.labels("authority").set(material.authorities[-1].expires.timestamp())
        if serving.certificate_pem != self._in_use:
            self._server.use(certificate=serving.certificate_pem, key=serving.key_pem)
            self._in_use = serving.certificate_pem


def _material(secret: Secret | None, log: Any) -> Material:
    """What a Secret holds; nothing where it is missing or damaged."""
    if secret is None:
        return Material()
    try:
        return from_data({name: base64.b64decode(value) for name, value in secret.data.items()})
    except ValueError as error:
        log.error("the Secret is damaged, a manager makes it anew", error=str(error))
        return Material()


async def _attempt(look: Callable[[], Awaitable[None]], log: Any) -> None:
    """A failure is logged, and the next look tries again."""
    try:
        await look()
    except KubeError as error:
        log.warning("certificates not looked after", error=str(error))
    except Exception:
        log.exception("certificates not looked after")


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds * (0.9 + 0.2 * random.random()))  # noqa: S311 - spreads the replicas


class Contended(Exception):
    """The Secret changed under every attempt."""
