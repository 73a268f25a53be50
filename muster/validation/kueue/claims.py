"""The device classes that Kueue maps to a quota (`muster:kueue.deviceClasses`).

The figures are those of Kueue's own check of its configuration, without which it does not start.
Source: https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/pkg/config/validation.go, read 2026-11-27.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.kueue import UNCOUNTED
from muster.model.kueue.queue_groups import other_resources
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.kueue.flavors import QUALIFIED_NAME

_PATH: Final = "muster:kueue.deviceClasses"
_MOST_RESOURCES: Final = 16
_MOST_CLASSES: Final = 8


def claim_rules(stack: Stack) -> list[Violation]:
    """Every rule about device classes."""
    return [*_counts(stack), *_names(stack)]


def _counts(stack: Stack) -> Iterator[Violation]:
    classes = Counter(stack.kueue.device_classes.values())
    if len(classes) > _MOST_RESOURCES:
        message = f"has {len(classes)} resources; Kueue takes {_MOST_RESOURCES}."
        yield Violation(_PATH, message, "count several classes as one resource.")
    for resource, count in classes.items():
        if count > _MOST_CLASSES:
            message = f"maps {count} classes to {resource}; Kueue takes {_MOST_CLASSES}."
            yield Violation(_PATH, message, "remove some of them.")


def _names(stack: Stack) -> Iterator[Violation]:
    counted = _with_quota(stack)
    for name, resource in stack.kueue.device_classes.items():
        path = at(_PATH, name)
        if not QUALIFIED_NAME.match(name):
            message = f"{name!r} is not the name of a DeviceClass."
            yield Violation(path, message, "write one of `kubectl get deviceclass`.")
        if resource != UNCOUNTED and resource not in counted:
            message = f"no team has quota of {resource}, so Kueue would admit no claim of the class."
            fix = suggestion(resource, (UNCOUNTED, *counted), noun="resource with quota")
            yield Violation(path, message, fix)


def _with_quota(stack: Stack) -> list[str]:
    """The devices of pools, and whatever a team names besides CPU and memory."""
    found = [pool.device for pool in stack.pools if pool.is_gpu]
    for _, team in stack.owners():
        found += other_resources(team.allowance)
        found += [name for group in team.kueue.resource_groups for name in group.covered_resources]
    return sorted({*found} - {"cpu", "memory", names.UNCOUNTED_DEVICES})
