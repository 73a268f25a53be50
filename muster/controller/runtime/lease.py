"""Leader election by one coordination.k8s.io Lease.

Responsible for when this process may act as the leader. Another holder's lease counts as expired when it has
not changed for its duration on our own monotonic clock, so wrong wall clocks do not matter. Our own counts as
held until `RENEW_DEADLINE` after the start of the last successful renewal; `check` enforces it before every
write, also right after a pause of the whole process. Leader election is no fencing: correctness relies on
names and preconditions.

Durations are client-go's and Kueue's: 15 s lease, 10 s to renew it, a try every 2 s.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from muster.controller.kube.client import Client
from muster.controller.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import NotLeading
from muster.controller.runtime.metrics import Metrics

LEASE_SECONDS = 15
RENEW_DEADLINE = 10.0
RETRY_PERIOD = 2.0
ATTEMPT_TIMEOUT = 4.0
"""Seconds for one try, so that one hung connection does not use up the whole renew deadline."""
JITTER = 1.2
"""Candidates wait up to this many retry periods, so that they do not ask together."""


class LeaseSpec(Partial, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(Object, frozen=True):
    spec: LeaseSpec = LeaseSpec()


LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, type=Lease)


class LeaseLost(Exception):
    """We led and do not any more. The process must end: another one may be writing already."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """A lease as last seen change, and when on our clock."""

    lease: Lease
    at: float


class LeaderElection:
    """One candidate for one Lease. `acquire`, then `hold` for as long as the work goes on, then `release`."""

    def __init__(
        self,
        client: Client,
        key: Key,
        *,
        identity: str,
        metrics: Metrics,
        jitter: Callable[[], float] = random.random,
        wall_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client, self._key, self.identity = client, key, identity
        self._jitter, self._wall_clock = jitter, wall_clock
        self._observed: _Observed | None = None
        self._valid_until = float("-inf")
        self._gauge = metrics.leader.labels(str(key))
        self._renew_failures = metrics.lease_renew_failures.labels(str(key))
        self._gauge.set(0)
        metrics.lease_seconds_left.labels(str(key)).set_function(self._seconds_left)
        self._log = structlog.get_logger("lease").bind(lease=str(key), identity=identity)

    @property
    def leads(self) -> bool:
        return self._now() < self._valid_until

    def _seconds_left(self) -> float:
        return max(0.0, self._valid_until - self._now())

    def check(self) -> None:
        """The guard of a leader's client: raises NotLeading when the lease is not provably ours at this
        moment.
        """
        if not self.leads:
            raise NotLeading(f"{self.identity} does not hold the lease {self._key}")

    async def acquire(self) -> None:
        """Return when we lead, however long that takes."""
        while True:
            try:
                async with asyncio.timeout(ATTEMPT_TIMEOUT):
                    if await self._try():
                        self._gauge.set(1)
                        self._log.info("leading")
                        return
            except (KubeError, TimeoutError) as error:
                self._log.warning("cannot ask for the lease", error=str(error) or "timeout")
            await asyncio.sleep(RETRY_PERIOD * (1 + (JITTER - 1) * self._jitter()))

    async def hold(self) -> None:
        """Renew forever. Raises LeaseLost when that has failed for RENEW_DEADLINE, or another process
        has it.
        """
        try:
            while True:
                await asyncio.sleep(RETRY_PERIOD)
                await self._renew()
        finally:
            self._gauge.set(0)

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout_at(min(self._valid_until, self._now() + ATTEMPT_TIMEOUT)):
                if await self._try():
                    return
        except (KubeError, TimeoutError) as error:
            self._renew_failures.inc()
            self._log.warning("lease not renewed", error=str(error) or "timeout")
        else:
            holder = self._observed.lease.spec.holder_identity if self._observed else "no replica"
            if holder != self.identity:
                self._valid_until = float("-inf")
                raise LeaseLost(f"the lease {self._key} is held by {holder!r}")
        if not self.leads:
            raise LeaseLost(f"the lease {self._key} could not be renewed for {RENEW_DEADLINE:g} s")

    async def release(self) -> None:
        """Let the next one lead at once. Never raises: when it fails, the lease just runs out."""
        if self._observed is None or not self.leads:
            return
        self._valid_until = float("-inf")
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT):
                try:
                    await self._give_up(self._observed.lease)
                except Conflict:  # a renewal was under way when it was cut off: its answer is not known here
                    lease = await self._client.get(LEASE, self._key)
                    if lease.spec.holder_identity == self.identity:
                        await self._give_up(lease)
            self._log.info("lease released")
        except (KubeError, TimeoutError) as error:
            self._log.warning("lease not released", error=str(error) or "timeout")

    async def _give_up(self, lease: Lease) -> None:
        released = LeaseSpec(
            lease_duration_seconds=1,
            acquire_time=lease.spec.acquire_time,
            renew_time=self._wall_clock(),
            lease_transitions=lease.spec.lease_transitions,
        )
        await self._write(released, lease.metadata.resource_version)

    async def _try(self) -> bool:
        """One attempt to get or renew the lease. True when it is ours."""
        started = self._now()
        try:
            lease = await self._client.get(LEASE, self._key)
        except NotFound:
            lease = None
        if lease is not None:
            self._observe(lease)
            if not self._free(lease):
                return False
        spec = self._claim(lease.spec if lease else LeaseSpec())
        try:
            written = await self._write(spec, lease.metadata.resource_version if lease else "")
        except (Conflict, AlreadyExists):
            return False
        self._observe(written)
        self._valid_until = started + RENEW_DEADLINE
        return True

    def _observe(self, lease: Lease) -> None:
        version = lease.metadata.resource_version
        if self._observed is None or self._observed.lease.metadata.resource_version != version:
            self._observed = _Observed(lease, self._now())
        else:
            self._observed = _Observed(lease, self._observed.at)

    def _free(self, lease: Lease) -> bool:
        """Ours, not held, or unchanged for its whole duration under our eyes."""
        holder = lease.spec.holder_identity
        if not holder or holder == self.identity:
            return True
        seen = self._observed.at if self._observed else self._now()
        return self._now() >= seen + max(lease.spec.lease_duration_seconds, 1)

    def _claim(self, previous: LeaseSpec) -> LeaseSpec:
        now = self._wall_clock()
        ours = previous.holder_identity == self.identity
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=LEASE_SECONDS,
            acquire_time=previous.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=previous.lease_transitions + (0 if ours else 1),
        )

    async def _write(self, spec: LeaseSpec, resource_version: str) -> Lease:
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        body = {
            "metadata": metadata,
            "spec": {
                "holderIdentity": spec.holder_identity,
                "leaseDurationSeconds": spec.lease_duration_seconds,
                "acquireTime": _micro_time(spec.acquire_time),
                "renewTime": _micro_time(spec.renew_time),
                "leaseTransitions": spec.lease_transitions,
            },
        }
        if not resource_version:
            return await self._client.create(LEASE, body, namespace=self._key.namespace)
        return await self._client.replace(LEASE, self._key, body)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _micro_time(moment: datetime | None) -> str | None:
    """metav1.MicroTime: always six digits of a second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment else None
