"""Resource groups of ClusterQueues and Cohorts, as `kueue.resourceGroups` has them."""

from collections.abc import Mapping
from typing import Any, Final

from muster.live.fields import items, text

_LIMITS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")


def to_groups(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same groups, in the same order: Kueue tries flavors in order."""
    return [
        {
            "coveredResources": _words(group.get("coveredResources")),
            "flavors": [
                {
                    "name": text(flavor, "name"),
                    "resources": [_quota(each) for each in items(flavor, "resources")],
                }
                for flavor in items(group, "flavors")
            ],
        }
        for group in items(spec, "resourceGroups")
    ]


def _quota(found: Mapping[str, object]) -> dict[str, Any]:
    limits = {key: _plain(found[key]) for key in _LIMITS if found.get(key) is not None}
    return {"name": text(found, "name"), **limits}


def _plain(amount: object) -> object:
    """A whole number as one, which reads better than in quotes."""
    return int(amount) if isinstance(amount, str) and amount.isdecimal() and len(amount) < 10 else amount


def _words(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
