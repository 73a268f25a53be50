"""What our programs really ask of an API server, by its own audit log.

Decides what is logged, what a right is (an account, a verb and a resource of a group) and which version of an
API was asked for. Leaves what is compared with it to test_rights.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from muster.components import gang_authority
from muster.model.names import SYSTEM_NAMESPACE
from muster.model.stack import Scheduler
from muster.model.work import GATED, QUEUED, by_group

# (account, verb, group, resource with its subresource)
Right = tuple[str, str, str, str]

_USER: Final = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"
# https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/. A watch is answered when it begins.
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "users": [_USER + account for account in (gang_authority.MANAGER, gang_authority.WEBHOOKS)],
        },
        {"level": "None"},
    ],
}
# As some distributions have it: who names an owner whose deletion that blocks needs rights on the owner.
STRICT_OWNERS: Final = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
_LOG: Final = "rights.log"
_logs: Final[dict[Scheduler, list[Path]]] = {scheduler: [] for scheduler in Scheduler}


def audited(folder: Path, *schedulers: Scheduler) -> tuple[str, ...]:
    """Flags of an API server on which our programs live as with these schedulers: their calls count."""
    policy, log = folder / "rights-policy.yaml", folder / _LOG
    policy.write_text(yaml.safe_dump(_POLICY))
    for scheduler in schedulers:
        _logs[scheduler].append(log)
    return (f"--audit-policy-file={policy}", f"--audit-log-path={log}")


def used(scheduler: Scheduler) -> frozenset[Right]:
    """The rights without which a call of this run would have been refused."""
    written = (log for log in _logs[scheduler] if log.exists())
    return frozenset(right for log in written for right in _decided("allow", log))


def asked_versions(scheduler: Scheduler, group: str) -> frozenset[str]:
    """The versions of an API group that our programs asked for in this run."""
    events = (event for log in _logs[scheduler] if log.exists() for event in _events(log))
    about = (event.get("objectRef") or {} for event in events)
    return frozenset(each["apiVersion"] for each in about if each.get("apiGroup") == group)


def forbidden(folder: Path) -> list[Right]:
    """What our programs asked of this API server and had no right to. Refusals of webhooks, which are 403 as
    well, are none.
    """
    return [*_decided("forbid", folder / _LOG)]


@contextmanager
def enough_rights(folder: Path) -> Iterator[None]:
    """Nothing in this block is asked of the API server without a right. What a test asked before as a thief
    counts for nothing: the log is that of all tests of the server.
    """
    before = forbidden(folder)
    yield
    assert forbidden(folder) == before, "an account lacks a right"


def granted(scheduler: Scheduler) -> frozenset[Right]:
    """What a stack gives both programs, with everything on that it can switch on."""
    holds = scheduler is Scheduler.KUEUE
    manager = gang_authority.manager_cluster_rules(
        scheduler,
        holds=holds,
        deletes_without_quota=holds,
        makes_domains=holds,
        stops_idle=by_group(QUEUED if holds else ()),
        gated=GATED,
    )
    manager += gang_authority.taint_rules()
    manager += gang_authority.manager_rules() + gang_authority.placeholder_rules()
    webhooks = gang_authority.webhook_cluster_rules() + gang_authority.webhook_rules()
    both = ((gang_authority.MANAGER, manager), (gang_authority.WEBHOOKS, webhooks))
    return frozenset(right for account, rules in both for rule in rules for right in _of(account, rule))


def _of(account: str, rule: gang_authority.Rule) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield account, verb, group, resource


def _decided(decision: str, log: Path) -> Iterator[Right]:
    for event in _events(log):
        about = event.get("objectRef")
        if about and event.get("annotations", {}).get("authorization.k8s.io/decision") == decision:
            account = event["user"]["username"].removeprefix(_USER)
            resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            yield account, event["verb"], about.get("apiGroup", ""), resource


def _events(log: Path) -> Iterator[dict[str, Any]]:
    # What stands after the last end of a line is still being written.
    return map(msgspec.json.decode, log.read_bytes().split(b"\n")[:-1])
