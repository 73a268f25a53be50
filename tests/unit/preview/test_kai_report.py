"""The report of a stack with KAI: quota, limit, weight, and which work is never evicted."""

from datetime import UTC, datetime

from muster import config
from muster.live.snapshot import Queue, Snapshot, Usage
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import (
    eviction_changes,
    queue_changes,
    queue_priority_changes,
    queues_over_quota,
)
from muster.preview.failing import FailOn, failures
from muster.preview.markdown import format_comment
from muster.preview.report import to_report
from tests.unit.preview.preview_world import KAI_PROD, LOCAL, changed_kai, diff


def _comment(base: Stack | None, head: Stack | None, snapshot: Snapshot | None = None) -> str:
    return format_comment(to_report([diff(base, head, name="kai", snapshot=snapshot)]))


def test_quota_limit_and_weight_of_every_changed_queue_are_listed() -> None:
    head = changed_kai(("quota: {a10g: 16}", "quota: {a10g: 12}"), ("weight: 2", "weight: 3"))
    text = _comment(KAI_PROD, head)
    assert "| `training` | `platform / research / training` | GPU | 16 → 12 | 32 → 28 | 2 → 3 |" in text
    assert "| `research` | `platform / research` | GPU | 20 → 16 |" in text
    assert "is never evicted" in text
    assert {each.queue for each in queue_changes(KAI_PROD, head) if each.resource == "gpu"} == {
        "platform",
        "research",
        "training",
    }


def test_columns_that_only_kueue_has_are_left_out_for_kai() -> None:
    text = _comment(KAI_PROD, changed_kai(("borrow: {a10g: 16}", "borrow: none")))
    for word in ("May lend", "Could use at most", "Borrowing that became"):
        assert word not in text
    assert "Who can preempt whom" in text


def test_a_priority_that_crosses_100_is_listed() -> None:
    head = changed_kai(("build-preemptible: 75", "build-preemptible: 110"))
    assert [(each.priority.name, each.is_protected) for each in eviction_changes(KAI_PROD, head)] == [
        ("build-preemptible", True)
    ]
    assert [(each.priority.name, each.is_protected) for each in eviction_changes(head, KAI_PROD)] == [
        ("build-preemptible", False)
    ]
    assert "(110) stays within the quota and is never evicted now." in _comment(KAI_PROD, head)


def test_a_changed_queue_priority_is_listed() -> None:
    found = queue_priority_changes(KAI_PROD, changed_kai(("kai: {priority: 200}", "kai: {priority: 50}")))
    assert [(each.name, each.before, each.after) for each in found] == [("serving", 200, 50)]


def test_queues_over_their_new_quota_are_listed() -> None:
    head = changed_kai(("quota: {a10g: 16}", "quota: {a10g: 12}"))
    used = (
        Queue(name=name, parent="research", usage=(Usage("", "nvidia.com/gpu", amount),))
        for name, amount in (("training", 14), ("notebooks", 4), ("research", 18))
    )
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    snapshot = Snapshot(taken=now, scheduler=Scheduler.KAI, queues=tuple(used))
    assert [(each.queue, each.used, each.quota) for each in queues_over_quota(head, snapshot)] == [
        ("training", 14, 12000)
    ]
    assert "| `training` | GPU | 14 | 12 |" in _comment(KAI_PROD, head, snapshot)
    found = failures([diff(KAI_PROD, head, name="kai", snapshot=snapshot)], [FailOn.OVERUSE])
    assert "kai: queue training holds 14 GPU now, and keeps 12." in found


def test_a_change_of_the_scheduler_is_shown_from_both_sides() -> None:
    kueue = config.load(LOCAL)
    assert "| `serving` | `platform / product / serving` | GPU | – → 12 |" in _comment(kueue, KAI_PROD)
    assert "| `serving` | `platform / product / serving` | GPU | 12 → – |" in _comment(KAI_PROD, kueue)


def test_nothing_changes_in_kai_either() -> None:
    assert "**Nothing changes.**" in _comment(KAI_PROD, KAI_PROD)
    assert [
        *queue_changes(KAI_PROD, KAI_PROD),
        *queue_priority_changes(KAI_PROD, KAI_PROD),
        *eviction_changes(KAI_PROD, KAI_PROD),
    ] == []
