"""Compares two stacks: every difference between their queues, pools and settings.

Responsible for putting the comparisons together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.clusters import ReleaseChannel
from muster.model.kueue.tree import Tree, to_tree
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.transitions import Judgement
from muster.preview.compare.pools import PoolChange, PoolOrder, pool_changes, pool_order, version_changes
from muster.preview.compare.preemption import (
    AccessChange,
    PreemptionChange,
    PriorityChange,
    access_changes,
    preemption_changes,
    priority_changes,
    rules_of,
)
from muster.preview.compare.preemption_rules import PreemptionRules
from muster.preview.compare.quota import PoolSum, QuotaChange, pool_sums, quota_changes
from muster.preview.compare.settings import (
    LostNamespace,
    LostVolume,
    SettingChange,
    lost_namespaces,
    lost_volumes,
    setting_changes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences. `quotas` go down the tree. `rules` are those of base and head. `not_compared` names
    what could not be compared, and why.
    """

    quotas: tuple[QuotaChange, ...]
    sums: tuple[PoolSum, ...]
    preemption: tuple[PreemptionChange, ...]
    pools: tuple[PoolChange, ...]
    settings: tuple[SettingChange, ...]
    before: Tree
    after: Tree
    order: PoolOrder | None
    rules: tuple[PreemptionRules, PreemptionRules]
    not_compared: tuple[str, ...] = ()
    versions: tuple[Judgement, ...] = ()
    priorities: tuple[PriorityChange, ...] = ()
    access: tuple[AccessChange, ...] = ()
    namespaces: tuple[LostNamespace, ...] = ()
    volumes: tuple[LostVolume, ...] = ()

    @property
    def is_empty(self) -> bool:
        figures = self.quotas or self.sums or self.pools or self.order
        return not (figures or self.preemption or self.settings or self.versions)

    @property
    def removed_teams(self) -> tuple[str, ...]:
        """Teams that head does not have, by name."""
        return tuple(sorted(self.before.team_names - self.after.team_names))

    @property
    def releases_namespaces(self) -> bool:
        """Whether head leaves the namespaces alone that base makes and guards."""
        return any(
            each.path == ("tenancy", "namespaces") and each.after == Namespaces.EXISTING.value
            for each in self.settings
        )

    @property
    def channel(self) -> SettingChange | None:
        """The release channel of GKE that head moves the cluster to."""
        found = (each for each in self.settings if each.path == ("cluster", "release channel"))
        return next((each for each in found if each.after not in (None, ReleaseChannel.NONE)), None)

    def borrowing(self) -> Iterator[tuple[QuotaChange, int, int]]:
        """Teams whose borrowing of a pool became possible or impossible, with the most they could borrow."""
        for change in self.quotas:
            before, after = change.borrowable
            if change.is_team and bool(before) is not bool(after):
                yield change, before, after


def compare(base: Stack | None, head: Stack | None) -> Changes:
    """The changes from base to head. None is a stack that does not exist, and compares as an empty one."""
    before, after = _tree(base), _tree(head)
    rules = (rules_of(base, before), rules_of(head, after))
    preemption, not_compared = preemption_changes(*rules)
    return Changes(
        quotas=quota_changes(before, after),
        sums=pool_sums(before, after),
        preemption=preemption,
        pools=pool_changes(before.pools, after.pools),
        settings=setting_changes(base, head),
        before=before,
        after=after,
        order=pool_order(base, head),
        rules=rules,
        not_compared=not_compared,
        versions=version_changes(base, head),
        priorities=priority_changes(base, head),
        access=access_changes(base, head),
        namespaces=lost_namespaces(base, head),
        volumes=lost_volumes(base, head),
    )


def _tree(stack: Stack | None) -> Tree:
    return Tree() if stack is None else to_tree(stack)
