"""Pod templates whose pods cannot start, or do not end with their work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import ORDINARY, Attack, Way
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed, named, template

POLICY: Final = "muster-templates"
FINALIZER = "example.com/mine"
DAY = 86400
ENDLESS = "deleted work must give its nodes back"
UNSAFE = "the namespace enforces the Pod Security Standard baseline"
STUCK = "pods of this template would not start in the order of their queue"


@dataclass(frozen=True)
class InTemplate:
    """What an attack writes into a pod template, at which path, what it would have gained, and what the
    refusal has to contain.
    """

    template: Object
    path: str
    gained: str
    words: tuple[str, ...]


def _spec(path: str, gained: str, *words: str, **fields: object) -> InTemplate:
    body = template(1, restart="Never")
    body["spec"] |= fields
    return InTemplate(body, f"spec.{path}", gained, words)


def _container(path: str, gained: str, *words: str, **fields: object) -> InTemplate:
    body = template(1, restart="Never")
    body["spec"]["containers"][0] |= fields
    return InTemplate(body, f"spec.containers[].{path}", gained, words)


def _context(path: str, gained: str, *words: str, **fields: object) -> InTemplate:
    return _container(f"securityContext.{path}", gained, *words, securityContext=fields)


def _noted(path: str, gained: str, *words: str, **metadata: object) -> InTemplate:
    body = template(1, restart="Never")
    return InTemplate({"metadata": metadata, **body}, f"metadata.{path}", gained, words)


NODES = "nodes and quota for pods that never start"
HOST_PATH = [{"name": "devices", "hostPath": {"path": "/dev"}}]
INIT = [{"name": "init", "image": "i", "securityContext": {"privileged": True}}]
UNSAFE_TEMPLATES: Final = {
    "a volume of the node": _spec(
        "volumes[].hostPath.path", NODES, "remove hostPath volume devices", volumes=HOST_PATH
    ),
    "the network of the node": _spec("hostNetwork", NODES, "remove spec.hostNetwork", hostNetwork=True),
    "the processes of the node": _spec("hostPID", NODES, "remove spec.hostPID", hostPID=True),
    "the memory of the node": _spec("hostIPC", NODES, "remove spec.hostIPC", hostIPC=True),
    "a port of the node": _container(
        "ports[].hostPort",
        NODES,
        "container main: remove hostPort",
        ports=[{"containerPort": 80, "hostPort": 80}],
    ),
    "a privileged container": _context(
        "privileged", NODES, "remove securityContext.privileged", privileged=True
    ),
    "a privileged init container": _spec(
        "initContainers[].securityContext.privileged",
        NODES,
        "container init: remove securityContext.privileged",
        initContainers=INIT,
    ),
    "a capability": _context(
        "capabilities.add[]", NODES, "remove capabilities", capabilities={"add": ["SYS_ADMIN"]}
    ),
    "an unmasked /proc": _context(
        "procMount", NODES, "remove securityContext.procMount", procMount="Unmasked"
    ),
    "no system call filter": _context(
        "seccompProfile.type", NODES, "seccompProfile.type to", seccompProfile={"type": "Unconfined"}
    ),
    "no system call filter in any container": _spec(
        "securityContext.seccompProfile.type",
        NODES,
        "seccompProfile.type to",
        securityContext={"seccompProfile": {"type": "Unconfined"}},
    ),
    "no AppArmor": _context(
        "appArmorProfile.type", NODES, "appArmorProfile.type to", appArmorProfile={"type": "Unconfined"}
    ),
    "no AppArmor by annotation": _noted(
        "annotations{container.apparmor.security.beta.kubernetes.io/main}",
        NODES,
        "remove annotation",
        annotations={"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    ),
    "a type of SELinux": _context(
        "seLinuxOptions.type", NODES, "seLinuxOptions", seLinuxOptions={"type": "spc_t"}
    ),
    "a user of SELinux": _spec(
        "securityContext.seLinuxOptions.user",
        NODES,
        "seLinuxOptions",
        securityContext={"seLinuxOptions": {"user": "system_u"}},
    ),
    "a role of SELinux": _context(
        "seLinuxOptions.role", NODES, "seLinuxOptions", seLinuxOptions={"role": "system_r"}
    ),
    "a setting of the kernel": _spec(
        "securityContext.sysctls[].name",
        NODES,
        "remove sysctl kernel.msgmax",
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    ),
    "a probe of another host": _container(
        "livenessProbe.httpGet.host",
        NODES,
        "remove host from its probes",
        livenessProbe={"httpGet": {"port": 80, "host": "192.0.2.1"}},
    ),
    "a hook on another host": _container(
        "lifecycle.preStop.httpGet.host",
        NODES,
        "remove host from its probes",
        lifecycle={"preStop": {"httpGet": {"port": 80, "host": "192.0.2.1"}}},
    ),
    "a probe of another host's port": _container(
        "readinessProbe.tcpSocket.host",
        NODES,
        "remove host from its probes",
        readinessProbe={"tcpSocket": {"port": 80, "host": "192.0.2.1"}},
    ),
    "a hook on another host's port": _container(
        "lifecycle.postStart.tcpSocket.host",
        NODES,
        "remove host from its probes",
        lifecycle={"postStart": {"tcpSocket": {"port": 80, "host": "192.0.2.1"}}},
    ),
    "a process of a Windows host": _spec(
        "securityContext.windowsOptions.hostProcess",
        NODES,
        "hostProcess",
        securityContext={"windowsOptions": {"hostProcess": True}},
        hostNetwork=True,
    ),
}
STUCK_TEMPLATES: Final = {
    "a scheduler that does not run": _spec(
        "schedulerName", NODES, "set schedulerName to default-scheduler, not mine", schedulerName="mine"
    ),
    "a node": _spec(
        "nodeName", "a node that another gang's quota bought", "remove nodeName", nodeName="gpu-0"
    ),
    "a number as priority": _spec("priority", NODES, "remove priority", priority=1000),
    "a way to preempt": _spec("preemptionPolicy", NODES, "remove preemptionPolicy", preemptionPolicy="Never"),
    "every taint": _spec(
        "tolerations[].key",
        "nodes that are kept for another gang",
        "name the key of each of tolerations",
        tolerations=[{"operator": "Exists"}],
    ),
    "every taint of an effect": _spec(
        "tolerations[].key",
        "nodes that are kept for another gang",
        "name the key of each of tolerations",
        tolerations=[{"operator": "Exists", "effect": "NoSchedule"}],
    ),
    "a device by a template": _spec(
        "resourceClaims[].resourceClaimTemplateName",
        "a GPU that no quota counts",
        "remove resourceClaims",
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    ),
    "a device by its claim": _spec(
        "resourceClaims[].resourceClaimName",
        "a GPU that no quota counts",
        "remove resourceClaims",
        resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}],
    ),
    "a gate of one's own": _spec(
        "schedulingGates[].name",
        NODES,
        "remove scheduling gate example.com/mine",
        schedulingGates=[{"name": FINALIZER}],
    ),
}
FOR_GOOD = "GPUs without quota, for good"
ENDLESS_TEMPLATES: Final = {
    "a finalizer": _noted(
        "finalizers[]", FOR_GOOD, f"remove {FINALIZER} from metadata.finalizers", finalizers=[FINALIZER]
    ),
    "the finalizer of a controller": _noted(
        "finalizers[]",
        FOR_GOOD,
        "remove batch.kubernetes.io/job-tracking",
        finalizers=["batch.kubernetes.io/job-tracking"],
    ),
    "a day to end": _spec(
        "terminationGracePeriodSeconds",
        "a node for a day after its quota was given back",
        f"set terminationGracePeriodSeconds to 120 or less, not {DAY}",
        terminationGracePeriodSeconds=DAY,
    ),
    "a second too many": _spec(
        "terminationGracePeriodSeconds",
        "a second of a node",
        "terminationGracePeriodSeconds to 120",
        terminationGracePeriodSeconds=121,
    ),
}
# Each with the reason that its rule gives.
TABLE: Final[dict[str, tuple[InTemplate, str]]] = {
    **{name: (attack, UNSAFE) for name, attack in UNSAFE_TEMPLATES.items()},
    **{name: (attack, STUCK) for name, attack in STUCK_TEMPLATES.items()},
    **{name: (attack, ENDLESS) for name, attack in ENDLESS_TEMPLATES.items()},
}


def _attacks() -> Iterator[Attack]:
    """Each in one of Ray's templates in turn: test_templates.py creates each in every one."""
    places = [place for place in works.TEMPLATES if place.startswith("Ray")]
    for turn, (name, (attack, reason)) in enumerate(TABLE.items()):
        where = places[turn % len(places)]
        part = "metadata" if "metadata" in attack.template else "spec"
        yield Attack(
            name=f"{name}, in {where}",
            body=works.in_template(where, part, value=attack.template[part]),
            gains=attack.gained,
            policy=POLICY,
            path=f"{where}.{attack.path}",
            words=(reason, *attack.words),
            before=named(works.TEMPLATES[where], f"template-of-{turn % len(places)}"),
            # Kueue does not recount them, so those of work that exists are also closed to changes.
            also=("muster-growth",) if "resourceClaims" in attack.path else (),
        )


def _work() -> Iterator[Attack]:
    for kind, body in ORDINARY.items():
        if kind == "Service":
            continue
        yield Attack(
            name=f"{kind} with a finalizer",
            body=changed(body, "metadata", "finalizers", value=[FINALIZER]),
            gains=FOR_GOOD,
            policy="muster-ending",
            path=f"{kind}.metadata.finalizers[]",
            words=(f"remove {FINALIZER} from metadata.finalizers",),
        )


def _scheduled() -> Iterator[Attack]:
    """What a CronJob writes down for its Jobs. Kubernetes copies only labels and annotations of it."""
    at = ("spec", "jobTemplate", "metadata")
    yield Attack(
        name="CronJob with a finalizer for its Jobs",
        body=changed(works.cron_job(), *at, "finalizers", value=[FINALIZER]),
        gains=FOR_GOOD,
        policy="muster-ending",
        path="CronJob.spec.jobTemplate.metadata.finalizers[]",
        words=(f"remove {FINALIZER} from spec.jobTemplate.metadata.finalizers",),
    )


def _stored() -> Iterator[Attack]:
    for kind in ("ConfigMap", "Secret"):
        body = works.existing("v1", kind, "kept")
        yield Attack(
            name=f"{kind} with a finalizer",
            body=changed(body, "metadata", "finalizers", value=[FINALIZER]),
            before=body,
            gains="a namespace that is never deleted",
            policy="muster-ending",
            path=f"{kind}.metadata.finalizers[]",
            words=(f"remove {FINALIZER} from metadata.finalizers",),
        )


_ELSEWHERE: Final = "kueue.x-k8s.io/multikueue"
_MANAGED: Final = {
    "Job.spec.managedBy": works.job(managedBy=FINALIZER),
    "CronJob.spec.jobTemplate.spec.managedBy": changed(
        works.cron_job(), *("spec", "jobTemplate", "spec", "managedBy"), value=FINALIZER
    ),
    "RayJob.spec.managedBy": works.ray_job(managedBy=_ELSEWHERE),
    "RayJob.spec.rayClusterSpec.managedBy": works.ray_job(
        rayClusterSpec=works.cluster_spec(managedBy=_ELSEWHERE)
    ),
    "RayCluster.spec.managedBy": works.ray_cluster(managedBy=_ELSEWHERE),
    "RayService.spec.managedBy": works.ray_service(managedBy=_ELSEWHERE),
    "RayService.spec.rayClusterConfig.managedBy": works.ray_service(
        rayClusterConfig=works.cluster_spec(suspend=True, managedBy=_ELSEWHERE)
    ),
}


def _managed() -> Iterator[Attack]:
    """The field is immutable."""
    for path, body in _MANAGED.items():
        yield Attack(
            name=f"another controller in {path}",
            body=body,
            gains=NODES,
            policy=POLICY,
            path=path,
            words=("no controller in this cluster starts work", "remove managedBy"),
            ways=(Way.CREATE,),
        )


ATTACKS: Final = (*_attacks(), *_work(), *_scheduled(), *_stored(), *_managed())
