"""A quota without a bound: nothing of it is held against the pool, and every scheduler gets its own word."""

from typing import Final

from muster.model.kueue.tree import in_pool_unit, nominal_quota, to_tree
from muster.model.names import GPU_RESOURCE
from muster.model.quotas import quota, unnamed
from muster.model.stack import Stack
from muster.preview.figures import format_amount, format_signed
from muster.render import queuetree
from tests.unit.model.model_stacks import nominal_quotas, parsed, pool_of, specs

_STACK: Final = """\
config:
  muster:cluster: {provider: existing, name: own, context: own}
  muster:scheduler: %s
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 10}
    l4: {machine: g2-standard-8, maxNodes: 8}
  muster:departments:
    company:
      teams:
        open: {quota: {cpu: %s, l4: unlimited}}
        team-a: {quota: {l4: 8}, borrow: {l4: 4}}
"""


def _stack(scheduler: str = "kueue", cpu: str = "unlimited") -> Stack:
    return parsed(_STACK % (scheduler, cpu))


def test_kueue_gets_more_than_the_pool_has() -> None:
    assert nominal_quotas(_stack(), "open") == {
        "cpu": {"cpu": "1M", "memory": "100Ti", GPU_RESOURCE: "0"},
        "l4": {"cpu": "1M", "memory": "100Ti", GPU_RESOURCE: "1M"},
    }


def test_kai_gets_its_own_word() -> None:
    made = specs(_stack("kai"), "Queue")
    for name in ("open", "company"):
        shares = [made[name]["resources"][key] for key in ("gpu", "cpu", "memory")]
        assert {(share["quota"], share["limit"]) for share in shares} == {(-1, -1)}
    assert made["team-a"]["resources"]["gpu"]["quota"] == 8


def test_it_takes_nothing_from_the_share_of_others() -> None:
    for cpu in ("unlimited", "0"):
        stack = _stack(cpu=cpu)
        pool = pool_of(stack, "cpu")
        (team,) = [team for _, team in stack.teams() if team.name == "team-a"]
        owned = quota(unnamed(stack), team.allowance, pool, weight=team.weight)
        assert owned is not None
        assert owned.cpu == pool.max_cpu


def test_the_report_has_the_word() -> None:
    stack = _stack()
    pool = pool_of(stack, "l4")
    value = in_pool_unit(pool, nominal_quota(to_tree(stack).nodes["open"], "l4"))
    assert format_amount(pool, value) == format_amount(pool, 2 * value) == "unlimited"
    assert format_signed(pool, value - 8) == "to unlimited"
    assert format_signed(pool, 8 - value) == "from unlimited"
    assert format_amount(pool, 8) == "8"


def test_the_webhooks_bound_no_work_by_it() -> None:
    (queue,) = queuetree.queue_tree(_stack()).spaces["open"].queues
    assert queue.most["l4"] >= 10**6
