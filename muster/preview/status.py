"""The answer of a report: yes, look, refused, or nothing changes.

Yes is the answer where every team keeps what it has: no loss, no new right to evict another team, no setting
that changes for a team of before, no changed pool, no more guaranteed than the pool has, and no longer wait
in a replay. Everything else has to be looked at by a person.
"""

from collections.abc import Iterator

from muster.model.plural import many
from muster.preview.banner import Banner
from muster.preview.compare.changes import Changes
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.replay import ReplayDiff
from muster.preview.compare.settings import owner_of
from muster.preview.document import Answer, Status
from muster.preview.evictions import new_evictions


def to_status(diff: StackDiff, banner: Banner) -> Status:
    """The answer for one stack, and why."""
    if diff.is_refused:
        return Status(Answer.REFUSED, "cannot be deployed as it is")
    if diff.is_empty:
        return Status(Answer.NOTHING, "")
    reasons = tuple(_reasons(diff, banner))
    if reasons:
        return Status(Answer.LOOK, ", ".join(reasons))
    return Status(Answer.YES, "no team loses, and no team can newly evict another")


def _reasons(diff: StackDiff, banner: Banner) -> Iterator[str]:
    losses = len(banner.losses)
    if losses:
        yield many(losses, "loss", "losses")
    others = len(banner.others)
    if others:
        yield f"{many(others, 'other point')} to decide"
    rights = () if diff.changes is None else tuple(new_evictions(diff.changes, is_kai=diff.kai is not None))
    if rights and not others:
        yield f"{many(len(rights), 'new right')} to evict"
    short = () if diff.changes is None else tuple(_overcommitted(diff.changes))
    if short:
        yield f"{many(len(short), 'pool')} with more guaranteed than there is"
    settings = 0 if diff.changes is None else sum(1 for _ in _foreign_settings(diff.changes))
    if settings and not others:
        yield f"{many(settings, 'setting')} changed"
    pools = 0 if diff.changes is None else len(diff.changes.pools)
    if pools and not others:
        yield f"{many(pools, 'pool')} changed"
    if diff.replay is not None:
        yield from _replayed(diff.replay)
    if diff.policy_violations:
        yield f"{many(len(diff.policy_violations), 'warning')} of policies"


def _replayed(replay: ReplayDiff) -> Iterator[str]:
    if not replay.played:
        yield "no job of the recording could be played"
    if replay.slower:
        yield f"{many(len(replay.slower), 'team')} with longer waits in the replay"
    if replay.missing:
        yield f"{many(replay.missing, 'job')} that head cannot play"


def _overcommitted(changes: Changes) -> Iterator[str]:
    """Pools of which more GPUs are guaranteed than before, and more than the pool can have."""
    for each in changes.sums:
        pool = changes.after.pools.get(each.name)
        if pool is not None and pool.is_gpu and each.after.gpus > max(each.before.gpus, pool.max_gpus):
            yield each.name


def _foreign_settings(changes: Changes) -> Iterator[str]:
    """Settings that change for others than a team which only head has."""
    added = {f"team {name}" for name in changes.after.team_names - changes.before.team_names}
    yield from (each.place for each in changes.settings if owner_of(each.place) not in added)
