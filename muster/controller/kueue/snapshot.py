"""A Workload's own facts at one moment: plain data and questions about it.

Responsible for what Kueue's conditions allow. The view reads the caches, decide.py decides; what lies around
the Workload is surroundings.py.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.identity import ATTEMPT, NEEDS, request_name
from muster.controller.gangs.lease import CLOCK_SKEW
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.retry import RetryHistory, parse_history
from muster.controller.gangs.split import Gang, RequestSpec
from muster.controller.gangs.surroundings import Surroundings
from muster.controller.gangs.turn_order import TurnPosition
from muster.controller.kueue import identity
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.objects import (
    CheckState,
    Flavors,
    PodSet,
    PodSetAssignment,
    PodSetUpdate,
    Workload,
)
from muster.controller.kueue.podsets import done_since, gang, part, unlisted
from muster.controller.kueue.slices import NO_BASE, RunningBase, cluster_of, is_elastic
from muster.model import waiting
from muster.model.gangpolicy import GangPolicy
from muster.model.names import MULTI_KUEUE_ORIGIN
from muster.model.work import WORK

_GATED_KINDS: Final = frozenset({"Pod", *(each.kind for each in WORK if each.serves)})
"""Owners of Workloads whose pods are there before their quota."""
START_WATCH_LIMIT: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSlice:
    """What a slice was promised. `claims`: what its pods carry, by PodSet."""

    claims: Mapping[str, PodClaim]
    requests: tuple[ProvisioningRequest, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkloadSnapshot(Attempt):
    """One Workload under one check."""

    check: str
    workload: Workload
    flavors: Flavors = field(default_factory=dict)
    queue_flavors: tuple[tuple[str, ...], ...] = ()
    """The flavors of its ClusterQueue, by resource group, in the queue's order."""
    retry_delay: timedelta = timedelta(0)
    """How long its next attempt waits for those of other gangs."""
    base: RunningBase = NO_BASE
    """What an elastic gang already has while this slice requests more."""
    earlier_slices: tuple[EarlierSlice, ...] = ()
    """What the slices before it were promised and pods run on, the last first."""
    has_running_successor: bool = False
    """It is a slice that was replaced, and its pods run under a later one."""
    is_stranded: bool = False
    """It waits for quota, and pods of slices that were evicted may run on."""
    check_is_being_removed: bool = False
    """No check of ours stays: nothing is requested under it any more."""
    check_is_gone: bool = False
    """No check of ours exists: Workloads that we deactivated are activated while this controller runs."""

    @cached_property
    def check_state(self) -> CheckState | None:
        return self.workload.check_state(self.check)

    @property
    def state(self) -> str:
        """Of our check on the Workload; empty where Kueue has not put it there."""
        return self.check_state.state if self.check_state else ""

    @property
    def may_have_started(self) -> bool:
        return self.state == State.READY

    @cached_property
    def history(self) -> RetryHistory:
        return parse_history(self.workload)

    @cached_property
    def gang(self) -> Gang:
        return gang(self.workload, self.policy or GangPolicy(), self.flavors, granted=self.base.runs)

    @cached_property
    def expected_gang(self) -> Gang:
        """The pods that should run now: all, or while it grows those that ran before."""
        if not self.is_scale_up:
            return self.gang
        held = self.workload if self.is_admitted else part(self.workload, self.base.runs)
        return gang(held, self.policy or GangPolicy(), self.flavors)

    def request_name(self, spec: RequestSpec) -> str:
        uid = self.workload.metadata.uid
        return request_name(uid, self.check, self.labels[ATTEMPT], spec.shape)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        # Elsewhere each attempt is a reservation of its own.
        tries = self.history.tries if self.keeps_quota else 0
        return identity.labels(self.workload, check=self.check, tries=tries)

    def request_labels(self, spec: RequestSpec) -> Mapping[str, str]:
        """With what its flavors say: they can change while it waits."""
        return {**super().request_labels(spec), NEEDS: spec.needs_digest}

    def held_as(self, spec: RequestSpec) -> str:
        """One for the life of an elastic job: Kueue writes tolerations into its templates when it starts, and
        into no pod of a later growth (pkg/controller/elasticjobs of 0.19.2).
        """
        job = next((uid for uid, _ in cluster_of(self.workload)), "")
        return request_name(job, self.check) if job else self.request_name(spec)

    @property
    def is_stopped(self) -> bool:
        """A person keeps it outside the quota. A scale-up cannot be stopped alone: a part of it runs. What
        MultiKueue dispatches is stopped on its manager.
        """
        return waiting.is_stopped(self.workload.metadata.annotations) and not self.keeps_quota

    @property
    def is_elastic(self) -> bool:
        return is_elastic(self.workload)

    @property
    def is_scale_up(self) -> bool:
        """A part of its pods runs already, or may: to evict it would stop them."""
        return bool(self.base.runs) or not self.base.is_counted

    @property
    def makes_pods_later(self) -> bool:
        """Not the pods of what serves, of a group of pods, and of a growth: they wait behind Kueue's gate,
        and a quota of the namespace counts them already.
        """
        owners = (each.kind for each in self.workload.metadata.owner_references)
        return not (self.is_scale_up or any(kind in _GATED_KINDS for kind in owners))

    @property
    def is_remote(self) -> bool:
        """The Kueue of another cluster has made it here: with another spec it is deleted and made anew, and
        evicted it keeps its quota for ever, because there is no job yet (MultiKueue of 0.19.2).
        """
        return MULTI_KUEUE_ORIGIN in self.workload.metadata.labels

    @property
    def keeps_quota(self) -> bool:
        """It backs off within its reservation: to leave the quota would cost more than it gives back."""
        return self.is_scale_up or self.is_remote

    @property
    def quota_since(self) -> datetime | None:
        return self.workload.status.since("QuotaReserved")

    @property
    def began(self) -> datetime:
        """When it got its quota; now where no condition says so, or another machine's clock is ahead."""
        return min(self.quota_since or self.now, self.now)

    @property
    def counted_history(self) -> RetryHistory:
        """Its history, whose first try moves on by the time that it has queued for its quota since it came
        back: retry.deadline is for capacity that does not come, not for a queue that is long. Kueue counts
        from the same condition how long one has queued (pkg/workload/workload.go of 0.19.2, QueuedWaitTime).
        """
        history, back = self.history, self.workload.status.since("Requeued")
        began = back or (min(history.first_try, self.now) + CLOCK_SKEW if history.first_try else None)
        if began and (ended := self.ran_until) and ended > began:
            # It has run since its last try, and was not stopped by us: that run is the end of its failures.
            return replace(history, tries=0, first_try=None)
        if history.first_try is None or back is None:
            return history
        queued = max(timedelta(0), self.began - max(back, history.first_try))
        return replace(history, first_try=history.first_try + queued)

    @property
    def ran_until(self) -> datetime | None:
        """When it was last stopped; None where it runs, or never has. With Kueue's feature gate
        UnadmittedWorkloadsObservability one that has never run was "stopped" when it first got quota
        (SyncAdmittedCondition of pkg/workload/admissionchecks.go, 0.19.2).
        """
        condition = self.workload.status.condition("Admitted")
        return condition.last_transition_time if condition and condition.status == "False" else None

    @property
    def unreserved_since(self) -> datetime | None:
        """Since when it waits for quota; None while it has some or never had any."""
        condition = self.workload.status.condition("QuotaReserved")
        return condition.last_transition_time if condition and condition.status == "False" else None

    @property
    def last_change(self) -> datetime:
        """When something of it changed last: its quota, its requests, the nodes that it waits for."""
        moments = (self.quota_since, self.last_progress)
        return max((moment for moment in moments if moment), default=self.now)

    @cached_property
    def may_act(self) -> bool:
        """It has quota, and what it is for is clear."""
        return self.has_quota and not self.unresolved_flavor

    @property
    def is_reserved(self) -> bool:
        """It holds quota, which Kueue may be taking back."""
        return self.workload.status.holds("QuotaReserved")

    @property
    def has_quota(self) -> bool:
        """Kueue has reserved quota and is not taking it away again."""
        status = self.workload.status
        return (
            status.holds("QuotaReserved")
            and not status.holds("Evicted")
            and not status.holds("DeactivationTarget")
        )

    @cached_property
    def unresolved_flavor(self) -> str:
        """What its admission leaves open about where its PodSets run; empty when it names all flavors. A
        PodSet without an assignment, or with a flavor that does not exist, still needs capacity.
        """
        admission, policy = self.workload.status.admission, self.policy or GangPolicy()
        if admission is None:
            return "QuotaReserved is true, but status.admission names no flavors"
        assignments = {each.name: each for each in admission.pod_set_assignments}
        for each in self.workload.spec.pod_sets:
            if each.name not in assignments:
                return f"status.admission has no assignment for PodSet {each.name}"
            where = assignments[each.name]
            to = f"to which PodSet {each.name} is admitted"
            for name in where.flavors.values():
                if name not in self.flavors and not policy.flavor(name):
                    fix = "create it, or remove it from the ClusterQueue"
                    return f"there is no ResourceFlavor {name}, {to} ({fix})"
            if name := self._unlisted(each, where):
                fix = "add it there, or remove it from the ClusterQueue"
                return f"the GangPolicy has no flavor {name}, {to} ({fix})"
        return ""

    def _unlisted(self, pod_set: PodSet, assignment: PodSetAssignment) -> str:
        try:
            return unlisted(pod_set, assignment, self.policy) if self.policy else ""
        except ValueError:
            return ""  # The decision meets it too, and reports it.

    @property
    def wants_retry(self) -> bool:
        """Its pause is over, and it has not begun again: we took it out of the quota, or it keeps its quota
        and has not requested yet.
        """
        retry_at = self.history.retry_at
        if retry_at is None or self.history.refused or retry_at > self.now:
            return False
        if self.is_finished or self.is_stopped:
            return False
        if self.workload.spec.active:
            return self.keeps_quota and self.is_provisioning and not self.attempted
        return not self.history.grows and not self.workload.status.holds("QuotaReserved")

    @property
    def is_resting(self) -> bool:
        """It keeps its quota between two attempts, or is refused: it requests nothing."""
        retry_at = self.history.retry_at
        waits = retry_at is not None and retry_at > self.now
        return self.keeps_quota and (waits or bool(self.history.refused))

    @property
    def is_provisioning(self) -> bool:
        """Quota is held and the gang does not run: what it still lacks is the question."""
        return (
            self.policy is not None
            and self.check_state is not None
            and self.workload.spec.active
            and self.may_act
            and not self.is_finished
            and not self.is_admitted
        )

    @property
    def is_overdue(self) -> bool:
        """Admitted for so long that a pod of it should have been seen, and not so long ago that it was
        checked before.
        """
        since = self.workload.status.since("Admitted")
        grace = (self.policy or GangPolicy()).node_loss_grace
        return since is not None and grace <= self.now - since < grace + START_WATCH_LIMIT

    @property
    def holds_capacity_claims(self) -> bool:
        """What its requests were promised is still meant for its pods."""
        return self.may_act and not self.is_finished and self.policy is not None

    @property
    def claim_rank(self) -> tuple[bool, datetime, str]:
        """Priority of its claims: gangs that are Ready, then the one that was provisioned first."""
        moments = [request.status.since("Provisioned") for request in self.current.values()]
        last = max((moment for moment in moments if moment), default=self.now)
        return self.state != State.READY, last, self.workload.metadata.uid

    @property
    def is_finished(self) -> bool:
        return self.workload.status.holds("Finished") or self.workload.metadata.deletion_timestamp is not None

    @property
    def is_admitted(self) -> bool:
        return self.workload.status.holds("Admitted")

    @cached_property
    def carried(self) -> Mapping[str, tuple[PodClaim, ...]]:
        """What the pods of a running gang carry, by PodSet, the newest first."""
        found: dict[str, tuple[PodClaim, ...]] = {}
        for claims in (claims_of(self.check_state), *(each.claims for each in self.earlier_slices)):
            for name, claim in claims.items():
                found[name] = (*found.get(name, ()), claim)
        return found

    @property
    def ended(self) -> Mapping[str, int]:
        """Pods that are done, of those that were admitted."""
        return done_since(self.workload)

    @property
    def runs(self) -> bool:
        """Admitted by our word and not being evicted."""
        return self.state == State.READY and self.is_admitted and self.has_quota and not self.is_finished

    def with_retry_delay(self, delay: timedelta) -> "WorkloadSnapshot":
        return replace(self, retry_delay=delay)

    def move_to(self, now: datetime) -> None:
        """No cached property reads the time."""
        object.__setattr__(self, "now", now)

    def with_surroundings(self, surroundings: Surroundings) -> "WorkloadSnapshot":
        """The same facts, with what was computed of them: no cached property reads surroundings."""
        found = copy(self)
        object.__setattr__(found, "surroundings", surroundings)
        return found

    def turn_position(self) -> TurnPosition | None:
        if self.is_resting or not self.base.is_counted:
            return None  # No other gang waits for it.
        return self._turn_position(
            uid=f"{self.workload.metadata.uid}/{self.check}",
            since=self.quota_since,
            priority=self.workload.spec.priority,
        )


def claims_of(check_state: CheckState | None) -> Mapping[str, PodClaim]:
    """What our answer gave to the pods, by PodSet."""
    return {
        each.name: PodClaim(
            pod_set=each.name,
            annotations=each.annotations,
            node_selector=each.node_selector,
            tolerations=each.tolerations,
        )
        for each in (check_state.pod_set_updates if check_state else ())
    }


# Our check state on a Workload, written only when it changes.


def set_pending(snapshot: WorkloadSnapshot, message: str) -> tuple[SetCheckState, ...]:
    """Pending, with these words, where Kueue has put our entry."""
    return set_check_state(snapshot, State.PENDING, message) if snapshot.check_state else ()


def set_check_state(
    snapshot: WorkloadSnapshot,
    state: State,
    message: str,
    *,
    updates: tuple[PodSetUpdate, ...] = (),
    attempt: str = "",
) -> tuple[SetCheckState, ...]:
    current = snapshot.check_state
    if current and (current.state, current.message, current.pod_set_updates) == (state, message, updates):
        return ()
    return (SetCheckState(state=state, message=message, updates=updates, attempt=attempt),)
