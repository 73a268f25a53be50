"""Rules of Kueue's API, webhooks and scheduler for the `kueue:` sections of a stack.

Kueue itself would refuse some of these mistakes when the objects are applied, leave a queue inactive for
others, and not report the rest. Here all of them are reported at once, before anything is applied. Read from
Kueue 0.19.2: config/components/crd/bases, pkg/webhooks, pkg/cache/scheduler/clusterqueue.go.
"""

from collections.abc import Iterator

from muster.model.gangpolicy import OnStaggered
from muster.model.kueue import KueueOptions
from muster.model.programs import PLACEMENTS, Program
from muster.model.stack import PodsReady, Stack
from muster.model.violations import Violation, at
from muster.validation.kueue.flavors import check_rules, flavor_rules, object_name_rules
from muster.validation.kueue.queues import (
    claim_rules,
    count_rules,
    fields_of,
    group_rules,
    queue_rules,
    sharing_rules,
)
from muster.validation.programs import without_effect


def rules(stack: Stack) -> list[Violation]:
    every = (
        object_name_rules,
        flavor_rules,
        group_rules,
        queue_rules,
        check_rules,
        sharing_rules,
        count_rules,
        claim_rules,
        _held,
        _without_effect,
    )
    return [violation for rule in every for violation in rule(stack)]


def foreign_fields(stack: Stack) -> list[Violation]:
    """Fields that only Kueue knows, in a stack that another scheduler runs: none is ignored silently."""
    message = f"is a field of Kueue, which {stack.scheduler} cannot express."
    fix = "remove it, or write `muster:scheduler: kueue`."
    return [Violation(path, message, fix) for path in fields_of(stack)]


def _held(stack: Stack) -> Iterator[Violation]:
    """Kueue 0.19.2 then holds back each pod in the namespaces of teams that no queued work makes, and lifts
    the gate of none (pkg/controller/jobs/pod, Default and Skip).
    """
    served = [kind.family for kind in stack.work_kinds if kind.serves]
    if served and stack.gang_admission.policy.on_staggered is OnStaggered.HOLD:
        message = f"has {', '.join(served)}, with which Kueue holds back the pods that keep nodes."
        fix = "take it out of the list, or write `muster:gangAdmission: {onStaggered: release}`."
        yield Violation("muster:work", message, fix)


def _without_effect(stack: Stack) -> Iterator[Violation]:
    """The settings of Kueue's own configuration file, which the chart brings."""
    if stack.installs(Program.KUEUE):
        return
    key, known = PLACEMENTS[Program.KUEUE].key, KueueOptions()
    settings = {
        "muster:podsReady": stack.pods_ready != PodsReady(),
        at(key, "fairSharing"): stack.kueue.strategies != known.strategies,
        at(key, "admissionFairSharing"): stack.kueue.usage_sharing != known.usage_sharing,
        at(key, "deviceClasses"): stack.kueue.device_classes != known.device_classes,
        at(key, "excludeResourcePrefixes"): stack.kueue.exclude_resources != known.exclude_resources,
    }
    fix = f"remove it and set it in that Kueue's own configuration, or remove `{key}.install: false`."
    for path, is_set in settings.items():
        if is_set:
            yield without_effect(path, Program.KUEUE, fix)
    if stack.is_weighted:
        message = "weights need fair sharing, and this stack does not install Kueue."
        fix = "set `fairSharing` in that Kueue's own configuration."
        yield Violation(at(key, "install"), message, fix, level="warning")
