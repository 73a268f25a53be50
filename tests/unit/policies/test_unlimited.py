"""A quota without a bound is no guarantee that the pool has to keep, and it is named as what it is."""

import json
from typing import Any, Final

from muster.config.document import parse_text
from muster.config.stack import examine
from muster.policies.quotas import RULES
from muster.policies.registered import BUNDLE, Registered, Resource
from muster.policies.rule import Case
from muster.render import queues

_STACK: Final = """\
config:
  muster:cluster: {provider: existing, name: own, context: own}
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 10}
    l4: {machine: g2-standard-8, maxNodes: 8}
  muster:departments: {company: {teams: {open: {quota: {l4: unlimited}}, team-a: {quota: {l4: %s}}}}}
"""


def _found(quota: str, *, more: str = "", stack: str = _STACK) -> dict[str, list[str]]:
    own, _ = examine(parse_text(stack % quota, source="own"))
    assert own is not None
    objects: list[dict[str, Any]] = json.loads(json.dumps(queues.objects(own)))
    for each in objects:
        if more and each["kind"] == "ClusterQueue" and each["metadata"]["name"] == "team-a":
            (group,) = each["spec"]["resourceGroups"]
            group["flavors"][-1]["resources"][-1]["nominalQuota"] = more
    inputs = {"manifests": {str(index): json.dumps(each) for index, each in enumerate(objects)}}
    registered = Registered((Resource(urn="urn", type=BUNDLE, name="b", inputs=inputs),))
    return {
        rule.name: [each.message for each in rule.judge(Case(registered, rule.settings({}), own))]
        for rule in RULES
    }


def test_it_is_not_in_the_sum() -> None:
    assert _found("8")["quota-sums"] == []
    assert _found("8", more="9")["quota-sums"] != []


def test_the_policy_of_shares_names_it() -> None:
    (message,) = _found("4")["quota-share"]
    assert "ClusterQueue/open has a quota without a bound of the 8 GPUs of l4" in message


def test_a_pool_whose_flavor_has_another_name_is_judged() -> None:
    renamed = _STACK.replace("maxNodes: 8}", "maxNodes: 8, kueue: {flavor: gpu-l4}}")
    assert _found("8", stack=renamed)["quota-sums"] == []
    assert "pool l4: queues are guaranteed 9 GPUs" in _found("8", more="9", stack=renamed)["quota-sums"][0]
    assert "of the 8 GPUs of gpu-l4" in _found("8", stack=renamed)["quota-share"][0]
