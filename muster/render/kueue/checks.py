"""AdmissionChecks: the check that provisions a queued pool's capacity before admission, and checks of others.

Responsible for which check applies to which pool.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from muster.model import names
from muster.model.keys import to_json
from muster.model.kueue import AdmissionCheck, CheckUse, Parameters, RequestConfig
from muster.model.pools import Pool
from muster.model.stack import GangMode, Stack
from muster.render.kueue.flavors import flavors, topologies
from muster.render.kueue.manager import manager_config
from muster.render.manifest import Manifest, kueue

# Kueue's configuration where it decides and no pod runs: on a temporary control plane, and in the player.
# Nothing times out there.

_NEVER: Final = "8760h"


def deciding_config(stack: Stack) -> Manifest:
    """The Configuration document without the settings for jobs and pods."""
    config = manager_config(stack)
    config["integrations"] = {"frameworks": ["batch/job"]}
    config["manageJobsWithoutQueueName"] = False
    config.pop("managedJobsNamespaceSelector", None)
    # On by default since 0.19, but no pod ever becomes ready here.
    config["waitForPodsReady"] = {"timeout": _NEVER, "recoveryTimeout": _NEVER, "blockAdmission": False}
    config["clientConnection"] = {"qps": 2000, "burst": 4000}
    # Each reconcile of a ClusterQueue writes the usage found so far into its status. Few workers reconcile it
    # less often and write less: 1,000 queues caused 6,279 writes with twenty workers and 778 with one.
    concurrency = {**config["controller"]["groupKindConcurrency"], "ClusterQueue.kueue.x-k8s.io": 2}
    config["controller"] = {"groupKindConcurrency": concurrency}
    return config


# A check's controllerName can never change, so Kueue's own check has other names and a stack may switch
# between them.
_BUILTIN_NAMES: Final = {
    names.GKE_QUEUED_CLASS: "builtin-gke-queued",
    names.BEST_EFFORT_ATOMIC_CLASS: "builtin-best-effort-atomic",
    names.CHECK_CAPACITY_CLASS: "builtin-check-capacity",
}


def admission_check(stack: Stack) -> list[Manifest]:
    """The AdmissionChecks of the stack, each behind the parameters it refers to."""
    configs = [_request_config(config) for config in stack.kueue.request_configs]
    return [*_capacity(stack), *configs, *(_check(check) for check in stack.kueue.admission_checks)]


def strategy(stack: Stack, flavors: list[str], used: tuple[CheckUse, ...] = ()) -> list[CheckUse]:
    """The checks of a ClusterQueue with these flavors, by flavor: capacity checks on their queued pools only,
    and the team's own checks on the pools that it names.
    """
    queued = (
        CheckUse(name=name, pools=tuple(pool.flavor for pool in pools if pool.flavor in flavors))
        for name, pools in capacity_checks(stack).items()
    )
    flavor_of = {pool.name: pool.flavor for pool in stack.pools}
    own = (replace(use, pools=tuple(flavor_of.get(pool, pool) for pool in use.pools)) for use in used)
    return [*(use for use in queued if use.pools), *own]


def capacity_checks(stack: Stack) -> dict[str, list[Pool]]:
    """Muster's one check knows every pool's class from its policy; Kueue's own needs a check for every kind
    of request.
    """
    if stack.gang_admission.mode is GangMode.OFF or not stack.gang_pools:
        return {}
    if stack.gang_admission.mode is GangMode.MUSTER:
        return {names.ADMISSION_CHECK: list(stack.gang_pools)}
    found: dict[str, list[Pool]] = {}
    for pool in stack.queued_pools:
        found.setdefault(builtin_name(pool), []).append(pool)
    return found


def builtin_name(pool: Pool) -> str:
    """The name of Kueue's own check of a pool. Pools of one name share one check, so they have to want the
    same; a pool that wants something of its own has its name in it.
    """
    said = pool.kueue.provisioning
    if said.check is not None:
        return said.check
    name = _BUILTIN_NAMES[pool.provisioning_class or names.BEST_EFFORT_ATOMIC_CLASS]
    is_plain = not pool.parameters and said == type(said)()
    return name if is_plain else f"{name}-{pool.name}"


def builtin_config(stack: Stack, pool: Pool) -> Manifest:
    """The ProvisioningRequestConfig of Kueue's own check of a pool.

    Kueue limits the number of retries, Muster their total time, so only the backoff of GangPolicy's `retry`
    is used.
    """
    said, retry = pool.kueue.provisioning, stack.gang_admission.policy.retry
    spec: Manifest = {
        "provisioningClassName": pool.provisioning_class,
        "managedResources": list(stack.managed_resources),
        "retryStrategy": {
            "backoffLimitCount": said.retries,
            "backoffBaseSeconds": int(retry.base.total_seconds()),
            "backoffMaxSeconds": int(retry.max.total_seconds()),
        },
    }
    if pool.request_parameters:
        spec["parameters"] = pool.request_parameters
    if said.merge is not None:
        spec["podSetMergePolicy"] = said.merge.value
    updates = _pod_set_updates(_node_selector(pool))
    if updates:
        spec["podSetUpdates"] = updates
    return kueue("ProvisioningRequestConfig", said.config or builtin_name(pool), spec=spec)


def _request_config(config: RequestConfig) -> Manifest:
    retry = {
        "backoffLimitCount": config.retries,
        "backoffBaseSeconds": config.base,
        "backoffMaxSeconds": config.most,
    }
    optional: Manifest = {
        "parameters": dict(config.parameters),
        "managedResources": list(config.managed_resources),
        "retryStrategy": {key: value for key, value in retry.items() if value is not None},
        "podSetMergePolicy": config.merge.value if config.merge else "",
        "podSetUpdates": _pod_set_updates(config.node_selector),
    }
    spec = {key: value for key, value in optional.items() if value}
    spec["provisioningClassName"] = config.provisioning_class
    return kueue("ProvisioningRequestConfig", config.name, spec=spec)


def _pod_set_updates(selector: Mapping[str, str]) -> Manifest:
    if not selector:
        return {}
    details = [
        {"key": key, "valueFromProvisioningClassDetail": detail} for key, detail in sorted(selector.items())
    ]
    return {"nodeSelector": details}


def _capacity(stack: Stack) -> list[Manifest]:
    checks = capacity_checks(stack)
    if stack.gang_admission.mode is GangMode.MUSTER:
        policy = Parameters(api_group=names.GROUP, kind=names.GANG_POLICY_KIND, name=names.GANG_POLICY)
        return [
            _check(AdmissionCheck(name=name, controller_name=names.CONTROLLER_NAME, parameters=policy))
            for name in checks
        ]
    return [item for name, pools in checks.items() for item in _builtin(stack, name, pools[0])]


def _builtin(stack: Stack, name: str, pool: Pool) -> list[Manifest]:
    config = builtin_config(stack, pool)
    parameters = Parameters(
        api_group="kueue.x-k8s.io", kind="ProvisioningRequestConfig", name=config["metadata"]["name"]
    )
    check = AdmissionCheck(name=name, controller_name=names.BUILTIN_CONTROLLER_NAME, parameters=parameters)
    return [config, _check(check)]


def _node_selector(pool: Pool) -> Mapping[str, str]:
    said = pool.kueue.provisioning.node_selector
    if said is not None:
        return said
    is_gke = pool.provisioning_class == names.GKE_QUEUED_CLASS
    return {names.GKE_LEASE_LABEL: names.GKE_LEASE_DETAIL} if is_gke else {}


def _check(check: AdmissionCheck) -> Manifest:
    spec: Manifest = {"controllerName": check.controller_name}
    if check.parameters is not None:
        spec["parameters"] = to_json(check.parameters)
    return kueue("AdmissionCheck", check.name, spec=spec)


# The objects that Kueue's queues refer to.


def cluster_objects(stack: Stack) -> list[Manifest]:
    """In the order in which they can be applied."""
    return [*topologies(stack), *flavors(stack), *admission_check(stack)]
