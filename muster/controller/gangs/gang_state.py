"""Metrics about gangs and their requests, from what changes in the caches.

Observes and never writes: a failure here costs a number, not a gang. Counts on the leader only, so that sums
over replicas are right. Durations are differences of the API's timestamps, so a restart or a new leader
shortens none.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from muster.controller.gangs.autoscaler_words import OUT_OF_STOCK
from muster.controller.gangs.metrics import OTHER, GangMetrics, GangState, reason_of, slug
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.reasons import loss
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import Result
from muster.model.gangpolicy import FlavorPolicy

_CONDITIONS: Final = {"Accepted": "accept", "Provisioned": "provision"}


class GangObservation(NamedTuple):
    """A gang at one moment. `since` is None where no object shows it: then it is since now. `failure` is what
    its last attempt ended with, or why it was given up.
    """

    uid: str
    state: GangState
    since: datetime | None = None
    failure: str = ""


class GangObserver:
    """Looks at a gang whenever it is reconciled. `observe_gang`: None where there is no gang of ours."""

    def __init__(
        self,
        metrics: GangMetrics,
        observe_gang: Callable[[Key], GangObservation | None],
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._metrics, self._observe_gang, self._clock = metrics, observe_gang, clock
        self._seen: dict[Key, GangObservation] = {}
        self._log = structlog.get_logger("gangs")

    def around(
        self, reconcile: Callable[[Key], Awaitable[Result]], *, writes: Callable[[], int]
    ) -> Callable[[Key], Awaitable[Result]]:
        """The same reconcile, observed before it runs, and after where something was written: own writes do
        not bring a key back. `writes`: how many decisions were carried out so far.
        """

        async def observed(key: Key) -> Result:
            self._try_observe(key)
            before = writes()
            try:
                return await reconcile(key)
            finally:
                if writes() != before:
                    self._try_observe(key)

        return observed

    def _try_observe(self, key: Key) -> None:
        try:
            self.observe(key)
        except Exception:
            self._log.exception("not observed", key=str(key))

    def observe(self, key: Key) -> None:
        now, before = self._observe_gang(key), self._seen.get(key)
        if (now and (now.uid, now.state)) == (before and (before.uid, before.state)):
            return
        if now is None:
            del self._seen[key]
            self._metrics.forget(key, self._state(before))
            return
        since = now.since or self._clock()
        self._seen[key] = now._replace(since=since)
        self._metrics.move(key, before=self._state(before), after=now.state, since=since)
        if before is not None and before.uid == now.uid:
            self._passed(before, now, since)

    @staticmethod
    def _state(observation: GangObservation | None) -> GangState | None:
        return observation.state if observation else None

    def _passed(self, before: GangObservation, now: GangObservation, since: datetime) -> None:
        seconds = max(0.0, (since - (before.since or since)).total_seconds())
        self._metrics.phase_seconds.labels(before.state).observe(seconds)
        self._log.info(
            "gang moved", before=before.state, state=now.state, after_seconds=seconds, why=now.failure
        )
        match now.state:
            case GangState.BACKING_OFF:
                self._metrics.retries.labels(reason_of(now.failure)).inc()
            case GangState.REFUSED:
                self._metrics.refusals.inc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestObserver:
    """`changed` listens to a cache of requests, which tells of placeholder sets too. `counts`: whether this
    process leads and the cache has been read, for what the first list contains existed before. `flavor`: what
    the policy says of a pool.
    """

    metrics: GangMetrics
    counts: Callable[[], bool]
    flavor: Callable[[str], FlavorPolicy | None]

    def changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if not self.counts():
            return
        try:
            self._observe(before, after)
        except Exception:
            structlog.get_logger("gangs").exception("request not observed")

    def _observe(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if after is None:
            if before is not None and not _is_settled(before):
                is_sold_out = isinstance(before, PlaceholderSet) and before.waits_for == OUT_OF_STOCK
                self._count(before, slug(OUT_OF_STOCK) if is_sold_out else "withdrawn")
            return
        if before is None:
            self._count(after, "asked")
        for condition, phase in _CONDITIONS.items():
            if after.status.holds(condition) and not (before and before.status.holds(condition)):
                self._count(after, condition.lower())
                self._time(after, phase)
        failed = loss(after, admitted=False)
        if failed is not None and not (before and loss(before, admitted=False)):
            self._count(after, slug(failed.summary))

    def _count(self, request: ProvisioningRequest, outcome: str) -> None:
        pool = request.metadata.annotations.get(POOL, "")
        self.metrics.requests.labels(*self._labels(pool), outcome).inc()

    def _time(self, request: ProvisioningRequest, phase: str) -> None:
        created = request.metadata.creation_timestamp
        accepted, provisioned = (request.status.since(condition) for condition in _CONDITIONS)
        began, ended = (created, accepted) if phase == "accept" else (accepted or created, provisioned)
        if began is not None and ended is not None:
            pool = request.metadata.annotations.get(POOL, "")
            seconds = max(0.0, (ended - began).total_seconds())
            self.metrics.request_seconds.labels(self._labels(pool)[0], phase).observe(seconds)

    def _labels(self, pool: str) -> tuple[str, str]:
        """Class and pool as the policy has them: any client may have written those of a request."""
        flavor = self.flavor(pool)
        return (flavor.provisioning_class_name, pool) if flavor else (OTHER, OTHER)


def _is_settled(request: ProvisioningRequest) -> bool:
    return request.status.holds("Provisioned") or loss(request, admitted=False) is not None
