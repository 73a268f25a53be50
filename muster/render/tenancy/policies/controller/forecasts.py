"""Workloads, for the recorder's account: the annotation that says when they may start, and nothing else.

Who may patch Workloads may change their priority, take them out of the queue, or name another queue.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, same_metadata
from muster.render.tenancy.policies.who import RECORDER

_OWN_KEY: Final = f"key == '{names.FORECAST_ANNOTATION}'"
_SAME: Final = "object.spec == oldObject.spec && object.?status == oldObject.?status"


def forecasts() -> Policy:
    return Policy(
        name=names.RECORDER,
        purpose="The recorder writes when a job may start.",
        kinds=(
            Kinds(group="kueue.x-k8s.io", resources=("workloads", "workloads/*"), operations=("UPDATE",)),
        ),
        unless=(("another", f"!({RECORDER})"),),
        everywhere=True,
        rules=(
            Rule(
                holds=f"{_SAME} && {same_metadata('object', 'oldObject', free=_OWN_KEY)}",
                message=f"'this account writes annotation {names.FORECAST_ANNOTATION} of a Workload and "
                "nothing else'",
            ),
        ),
    )
