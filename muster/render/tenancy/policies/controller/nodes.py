"""Nodes: two taints of ours, on the nodes of a gang that asks by placeholders and on broken ones, and nothing
else of them.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, same_but, same_metadata

_KEYS: Final = f"['{names.HELD_TAINT_KEY}', '{names.BROKEN_TAINT_KEY}']"
_OTHERS: Final = f"{{of}}.spec.?taints.orValue([]).filter(taint, !(taint.key in {_KEYS}))"
_OURS: Final = (
    f"object.spec.?taints.orValue([]).filter(taint, taint.key in {_KEYS})"
    f".all(taint, taint.key == '{names.BROKEN_TAINT_KEY}' "
    "? taint.effect in ['NoSchedule', 'PreferNoSchedule'] "
    f": taint.effect == 'NoSchedule' && taint.?value.orValue('').startsWith('{names.OWN_PREFIX}'))"
)


def nodes() -> Policy:
    rest = " && ".join(
        (
            same_but("object", "oldObject", free="key in ['metadata', 'spec']"),
            same_but("object.spec", "oldObject.spec", free="key == 'taints'"),
            same_metadata("object", "oldObject"),
            f"{_OTHERS.format(of='object')} == {_OTHERS.format(of='oldObject')}",
        )
    )
    return fence(
        "muster-controller-nodes",
        purpose="The controller writes its own taints on nodes.",
        kinds=(Kinds(group="", resources=("nodes",), operations=("UPDATE",)),),
        rules=(
            Rule(
                holds=f"({rest}) && {_OURS}",
                message=f"'of nodes this account writes the taint {names.HELD_TAINT_KEY}, with effect "
                f"NoSchedule and the name of a set of its placeholders, {names.BROKEN_TAINT_KEY}, and "
                "nothing else'",
            ),
        ),
    )
