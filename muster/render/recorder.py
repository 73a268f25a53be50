"""The objects of a recorder in the cluster: its account, its volume, its policy and its Deployment.

The image is that of Muster's controller, which holds the recorder as well (muster/local/builder/images.py).
Its account may list and watch what jobs are made from. Where it forecasts, it may also list queues and patch
Workloads: a policy limits it to one annotation (tenancy/policies/muster-recorder.yaml). Nothing
comes in to its pod.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.model import names
from muster.model.observability import RecordingSettings
from muster.model.quantities import MIB, Bytes, format_memory
from muster.model.stack import Scheduler, Stack
from muster.render import kueue
from muster.render.kueue.queues import local_queues
from muster.render.manifest import Manifest, manifest, restricted_container
from muster.render.observability import LABELS_OF_RECORDER, METRICS_PORT_NAME, annotations, reach

NAME: Final = names.RECORDER
FILE: Final = "/recordings/recording.jsonl.gz"
# muster/local/builder/images.py puts it there.
PLAYER: Final = "/opt/muster/kueue-player"
# A round in a pod with one CPU: fewer futures than `muster why` plays, and not as far.
_RUNS: Final = 20
_DAYS: Final = 3
# What the forecaster may use, and its player beside it. With 5,000 Workloads they take 606 and 537
# (bench/results/replay.md).
_FORECASTER_MIB: Final = 1400
_PLAYER_MIB: Final = 648
# A recorder that starts again reads the file into memory: 4 MiB are some 60,000 jobs and 200 MiB.
ROTATE_MIB: Final = 4
# The rest of the volume is for the file system and for the part that is being made.
_KEPT_SHARE: Final = 0.8
_USER: Final = 65532
_RBAC: Final = "rbac.authorization.k8s.io"
_KUEUE: Final = "kueue.x-k8s.io"
_AUTOSCALING: Final = "autoscaling.x-k8s.io"
_FOLLOW: Final = ["list", "watch"]
_FORECASTS: Final = (
    {"apiGroups": [_KUEUE], "resources": ["workloads"], "verbs": ["patch"]},
    {
        "apiGroups": [_KUEUE],
        "resources": ["clusterqueues", "cohorts", "localqueues", "resourceflavors"],
        "verbs": ["list"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},
)
_METRICS_PORT: Final = 8080


def objects(stack: Stack, *, image: Any, node_selector: Mapping[str, str]) -> list[Manifest]:
    """What there is besides the volume; the Deployment is the last. `image`: of the controller, with the
    player where the stack asks for forecasts; in a Pulumi program it may be an output.
    """
    return [
        _recorder_object("v1", "ServiceAccount"),
        manifest(f"{_RBAC}/v1", "ClusterRole", NAME, rules=rules(stack)),
        manifest(f"{_RBAC}/v1", "ClusterRoleBinding", NAME, **_binding("ClusterRole")),
        *_placeholder_rights(stack),
        _policy(stack),
        _deployment(stack, image=image, node_selector=node_selector),
    ]


def rules(stack: Stack) -> list[dict[str, Any]]:
    """The rights that `muster record` needs, in the cluster and elsewhere, and those of forecasts."""
    forecasts = _FORECASTS if stack.recording.forecasts else ()
    return [*_JOBS[stack.scheduler], *forecasts, *_budget_rules(stack)]


def volume(settings: RecordingSettings) -> Manifest:
    """What the recorder writes to, unless that is to end with its pod."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": format_memory(settings.storage)}},
    }
    if settings.storage_class is not None:
        spec["storageClassName"] = settings.storage_class
    return _recorder_object("v1", "PersistentVolumeClaim", spec=spec)


def _policy(stack: Stack) -> Manifest:
    if stack.budgets.teams:
        space = names.SYSTEM_NAMESPACE
        return reach(stack, NAME, namespace=space, selector=LABELS_OF_RECORDER, metrics=METRICS_PORT_NAME)
    spec = {"podSelector": {"matchLabels": LABELS_OF_RECORDER}, "policyTypes": ["Ingress"], "ingress": []}
    return _recorder_object("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _deployment(stack: Stack, *, image: Any, node_selector: Mapping[str, str]) -> Manifest:
    settings = stack.recording
    container = {
        "name": "recorder",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "muster.replay"],
        "args": [
            "record",
            f"--out={FILE}",
            f"--scheduler={stack.scheduler}",
            f"--rotate={ROTATE_MIB}",
            f"--keep={_recording_size(settings.storage)}",
            *(["--with-names"] if settings.names else []),
        ],
        # A big cluster's list of jobs is in memory for a moment when the recorder starts.
        "resources": {
            "requests": {"cpu": "20m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": [{"name": "recordings", "mountPath": FILE.rpartition("/")[0]}],
        # The last line that the program prints, where a person looks at the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted_container(),
    }
    pod = {
        "serviceAccountName": NAME,
        "priorityClassName": names.OWN_PRIORITY_CLASS,
        "nodeSelector": dict(node_selector),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            # The volume is root's until it is given to this group.
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,
        "containers": [
            container,
            *([_forecaster(stack, image)] if settings.forecasts else []),
            *([_budgets(stack, image)] if stack.budgets.teams else []),
        ],
        "volumes": [{"name": "recordings", **_source(settings)}],
    }
    return _recorder_object(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 1,
            # Two pods must not write one file, and one node holds the volume.
            "strategy": {"type": "Recreate"},
            # A recorder that cannot read or write ends within seconds: it has no other sign of trouble.
            "minReadySeconds": 10,
            "selector": {"matchLabels": LABELS_OF_RECORDER},
            "template": {"metadata": {"labels": LABELS_OF_RECORDER, **_announced(stack)}, "spec": pod},
        },
    )


def _forecaster(stack: Stack, image: Any) -> dict[str, Any]:
    """Reads the recording and writes nowhere but on Workloads."""
    return {
        "name": "forecaster",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "muster.replay"],
        "args": [
            "forecast",
            f"--out={FILE}",
            f"--player={PLAYER}",
            f"--runs={_RUNS}",
            f"--days={_DAYS}",
            f"--memory={_FORECASTER_MIB}",
            f"--configuration={json.dumps(kueue.deciding_config(stack), separators=(',', ':'))}",
        ],
        "resources": {
            "requests": {"cpu": "50m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": f"{_FORECASTER_MIB + _PLAYER_MIB}Mi"},
        },
        "volumeMounts": [{"name": "recordings", "mountPath": FILE.rpartition("/")[0], "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted_container(),
    }


def _budgets(stack: Stack, image: Any) -> dict[str, Any]:
    """Reads the recording and writes nowhere but on LocalQueues."""
    order = {
        "budgets": [
            {"team": name, "hours": hours, "queues": _queues_of(stack, name)}
            for name, hours in stack.budgets.teams.items()
        ],
        "warn": stack.budgets.warn,
        # As muster/usage/inputs.py reads it.
        "terms": {
            "pools": [
                {
                    "name": pool.name,
                    "flavor": pool.flavor,
                    "device": pool.device,
                    "machine": pool.machine.name,
                    "slots": pool.slots_per_node,
                }
                for pool in stack.pools
                if pool.is_gpu
            ],
            "teams": {space: team.name for space, team in stack.teams_by_namespace().items()},
        },
    }
    return {
        "name": "budgets",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "muster.usage.budgets"],
        "args": [
            f"--out={FILE}",
            f"--order={json.dumps(order, separators=(',', ':'), sort_keys=True)}",
            f"--metrics={_METRICS_PORT}",
        ],
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": _METRICS_PORT}],
        "resources": {
            "requests": {"cpu": "20m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": [{"name": "recordings", "mountPath": FILE.rpartition("/")[0], "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted_container(),
    }


def _announced(stack: Stack) -> dict[str, Any]:
    found = annotations(stack.observability, _METRICS_PORT) if stack.budgets.teams else {}
    return {"annotations": dict(found)} if found else {}


def _queues_of(stack: Stack, name: str) -> list[str]:
    """The LocalQueues of a team."""
    owners = {team.name: teams[0] for teams in stack.queue_members().values() for team in teams}
    team = next(team for _, team in stack.teams() if team.name == name)
    return ["/".join(key) for key in local_queues(team, owners[name])]


def _budget_rules(stack: Stack) -> list[dict[str, Any]]:
    """To stop LocalQueues. Their ClusterQueue cannot be changed, so what else can be patched is a weight.

    Source: https://github.com/kubernetes-sigs/kueue (apis/kueue/v1beta2/localqueue_types.go), read 2026-11-29
    """
    queues = {queue.partition("/")[2] for team in stack.budgets.teams for queue in _queues_of(stack, team)}
    if not queues:
        return []
    local = {"apiGroups": [_KUEUE], "resources": ["localqueues"]}
    return [
        {**local, "verbs": ["list"]},
        {**local, "resourceNames": sorted(queues), "verbs": ["patch"]},
    ]


def _source(settings: RecordingSettings) -> dict[str, Any]:
    if settings.ephemeral:
        return {"emptyDir": {"sizeLimit": format_memory(settings.storage)}}
    return {"persistentVolumeClaim": {"claimName": NAME}}


def _recording_size(storage: Bytes) -> int:
    return int(storage * _KEPT_SHARE) // MIB


def _rule(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [*resources], "verbs": _FOLLOW}


_JOBS: Final = {
    Scheduler.KUEUE: (
        *(_rule(_KUEUE, "workloads"), _rule("", "nodes"), _rule(_AUTOSCALING, "provisioningrequests")),
    ),
    Scheduler.KAI: (
        _rule("scheduling.run.ai", "podgroups"),
        _rule("scheduling.k8s.io", "priorityclasses"),
        _rule("", "pods", "events", "nodes"),
    ),
}


def _placeholder_rights(stack: Stack) -> Iterator[Manifest]:
    """For the pods that say whom a node was bought for, and no others."""
    if stack.scheduler.traits.admits_jobs and stack.placeholder_pools:
        space = names.PLACEHOLDER_NAMESPACE
        yield manifest(f"{_RBAC}/v1", "Role", NAME, namespace=space, rules=[_rule("", "pods")])
        yield manifest(f"{_RBAC}/v1", "RoleBinding", NAME, namespace=space, **_binding("Role"))


def _binding(kind: str) -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": names.SYSTEM_NAMESPACE}],
    }


def _recorder_object(api_version: str, kind: str, **body: Any) -> Manifest:
    return manifest(api_version, kind, NAME, namespace=names.SYSTEM_NAMESPACE, **body)
