"""What to do about an elastic gang that grows, beside what is done about every gang.

Decides how a growth fails. The slice that grows holds the quota of the whole gang, and the pods that run
already would stop with it if it were evicted or deactivated (Kueue suspends the cluster). So a growth that
fails gives its requests back, keeps its quota and stays Pending until it tries again: what runs is not
touched. It ends when the cluster asks for less, which Kueue writes into the same slice. One that no try can
help stays refused until what it asks for or a limit of it is another.

    the slice before is finished, and what of it may be scheduled is known
      -> the pause after its last try is over, and it is its turn among all that try again
      -> as every gang (machine.py)
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import Tell
from muster.controller.gangs.assembly import everything
from muster.controller.gangs.capacity_claims import Claim
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.retry import History, next_try, whole
from muster.controller.gangs.unsatisfiable import about
from muster.controller.kueue.actions import Action, Count, Decision, Note, Unclaim
from muster.controller.kueue.check_state import say
from muster.controller.kueue.snapshot import Situation
from muster.model.gangpolicy import GangPolicy, format_duration
from muster.model.waiting import clock

LOOK_AGAIN: Final = timedelta(seconds=5)
"""Until the cluster of an elastic gang is started: no news of ours tells it."""
SOON: Final = timedelta(seconds=1)


def unclaim(now_is: Situation, *, history: History | None = None) -> tuple[Unclaim, ...]:
    """An elastic gang's pods get their claims one growth at a time: its templates must hold none."""
    if not now_is.is_elastic:
        return ()
    flavors = now_is.policy.flavors if now_is.policy else ()
    pins = {pin.key for flavor in flavors for pin in flavor.node_selector_from_details}
    # Also where no policy is accepted at the moment: nobody looks at these templates a second time.
    pins |= {key for claims in now_is.carried.values() for claim in claims for key in claim.node_selector}
    return (Unclaim(selectors=tuple(sorted(pins)), history=history),)


def is_claimed(now_is: Situation) -> bool:
    """It runs, and its templates have not been looked at since it was started."""
    return now_is.is_elastic and now_is.past.unclaimed != now_is.labels[ATTEMPT]


def inherited(now_is: Situation) -> Mapping[str, Claim]:
    """The claims of PodSets that grow no further: a pod of theirs that is made anew goes where they are."""
    found: dict[str, Claim] = {}
    for before in now_is.beneath:
        for name, claim in before.claims.items():
            found.setdefault(name, claim)
    return found


def before_asking(now_is: Situation) -> Decision | None:
    """What keeps a slice that replaces another from asking now; None where nothing does."""
    if now_is.base.is_open:
        # Until Kueue has finished it, the slice before may still be admitted and let pods go.
        message = "the smaller slice before it is being replaced"
        return Decision(actions=say(now_is, message), wake=now_is.now + SOON)
    if now_is.base.is_uncounted:
        return Decision(actions=(Count(),))
    return _between_tries(now_is) if now_is.is_growth and now_is.gang.asks else None


def _between_tries(now_is: Situation) -> Decision | None:
    """A growth that has failed and waits; None where there is nothing to wait for."""
    past = now_is.past
    if past.refused and past.refused_for != _about(now_is):
        return Decision(actions=(Note(history=_afresh(now_is)),))
    if past.refused:
        return Decision(actions=(*say(now_is, _refused(past)), *everything(now_is)))
    if (right := now_is.corrected) != past:
        return Decision(actions=(Note(history=right),))
    if past.retry_at is None or (now_is.now >= past.retry_at and not now_is.pace):
        return None
    wake = max(past.retry_at, now_is.now + now_is.pace)
    return Decision(actions=(*say(now_is, _waits(past)), *everything(now_is)), wake=wake)


def _about(now_is: Situation) -> str:
    """What a refusal of this growth is about."""
    try:
        return about(now_is.gang, now_is.policy or GangPolicy())
    except ValueError:
        return ""  # There is nothing to compare until it can be read.


def _afresh(now_is: Situation) -> History:
    """Without the refusal. The tries go on being counted: requests are named after them."""
    now = whole(now_is.now)
    tries = now_is.past.tries + 1
    begun = replace(now_is.past, tries=tries, first_try=now, retry_at=now, grows=True)
    return replace(begun, refused="", refused_for="", last_failure="")


def since(now_is: Situation) -> datetime:
    """When the present try began: the deadlines of a growth run anew with each, its quota stays."""
    began = (now_is.past.retry_at if now_is.is_growth else None) or now_is.quota_since
    return began or now_is.now


def retreat(now_is: Situation, policy: GangPolicy, failure: str) -> Decision:
    """Give the growth's requests back, and try again later."""
    past = now_is.past
    uid = now_is.workload.metadata.uid
    future = next_try(past, uid=uid, began=now_is.began, failure=failure, now=now_is.now, policy=policy.retry)
    if future is None:
        given = f"gave up after {past.tries + 1} tries in {format_duration(policy.retry.deadline)}"
        return refuse(now_is, f"{given}; last: {failure}")
    future = replace(future, grows=True, lease_ends=past.lease_ends)
    return _end(now_is, future, "GrowthReleased", _waits(future))


def refuse(now_is: Situation, reason: str) -> Decision:
    """No try can help this growth as it is."""
    history = replace(now_is.past, refused=reason[:1000], refused_for=_about(now_is), retry_at=None)
    if history == now_is.past:
        return Decision(actions=(*everything(now_is), *say(now_is, _refused(history))))
    return _end(now_is, history, "GrowthRefused", _refused(history))


def _end(now_is: Situation, history: History, reason: str, message: str) -> Decision:
    told = Tell(kind="Warning", reason=reason, message=message)
    # The word before the deletions: who was Ready must not be while something is taken from it.
    actions: tuple[Action, ...] = (Note(history=history), *say(now_is, message), *everything(now_is), told)
    return Decision(actions=actions, wake=history.retry_at)


def _waits(past: History) -> str:
    when = f" at {clock(past.retry_at)}" if past.retry_at else ""
    why = f" ({past.last_failure})" if past.last_failure else ""
    return f"cannot grow yet{why}; what runs goes on; try {past.tries + 1}{when}"


def _refused(past: History) -> str:
    return f"cannot grow: {past.refused}. What runs goes on. Fix: ask for fewer replicas"
