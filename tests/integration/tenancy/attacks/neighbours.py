"""Beyond the team: other teams' pods and storage, and nodes that are kept after the quota was given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import Attack, in_each_template
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed

_TEMPLATES: Final = "muster-templates"
_FINISHED: Final = "muster-finished"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EVERY_POD: Final[Object] = {"topologyKey": "kubernetes.io/os", "labelSelector": {}}

# Volumes by an address or an identity, all of which the Pod Security Standard baseline allows.
_VOLUMES: Final[dict[str, tuple[Object, str]]] = {
    "nfs": ({"server": "192.0.2.1", "path": "/team-b"}, "path"),
    "iscsi": ({"targetPortal": "192.0.2.1", "iqn": "iqn.2026-01.com.example:b", "lun": 0}, "iqn"),
    "cephfs": ({"monitors": ["192.0.2.1"]}, "monitors[]"),
    "rbd": ({"monitors": ["192.0.2.1"], "image": "b"}, "image"),
    "glusterfs": ({"endpoints": "b", "path": "b"}, "path"),
    "fc": ({"targetWWNs": ["50060e801049cfd1"], "lun": 0}, "targetWWNs[]"),
    "gcePersistentDisk": ({"pdName": "team-b"}, "pdName"),
    "awsElasticBlockStore": ({"volumeID": "vol-0b"}, "volumeID"),
    "azureDisk": ({"diskName": "b", "diskURI": "/subscriptions/b", "kind": "Managed"}, "diskURI"),
    "azureFile": ({"secretName": "b", "shareName": "b"}, "shareName"),
    "cinder": ({"volumeID": "b"}, "volumeID"),
    "vsphereVolume": ({"volumePath": "[b] b.vmdk"}, "volumePath"),
    "flexVolume": ({"driver": "example.com/b"}, "driver"),
    "portworxVolume": ({"volumeID": "b"}, "volumeID"),
    "quobyte": ({"registry": "192.0.2.1:7861", "volume": "b"}, "volume"),
    "scaleIO": (
        {"gateway": "https://192.0.2.1", "system": "b", "secretRef": {"name": "b"}, "volumeName": "b"},
        "volumeName",
    ),
    "storageos": ({"volumeName": "b"}, "volumeName"),
    "photonPersistentDisk": ({"pdID": "b"}, "pdID"),
    "flocker": ({"datasetName": "b"}, "datasetName"),
    "gitRepo": ({"repository": "https://example.com/b"}, "repository"),
    "ephemeral": (
        {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Ti"}}}
            }
        },
        "volumeClaimTemplate.spec.resources.requests{}",
    ),
}


def _affinity(kind: str, term: Object, *, preferred: bool = False) -> Object:
    terms: list[Object] = [{"weight": 100, "podAffinityTerm": term}] if preferred else [term]
    return {kind: {_PREFERRED if preferred else _REQUIRED: terms}}


def _elsewhere() -> Iterator[Attack]:
    anywhere: Object = {"namespaceSelector": {}}
    there: Object = {"namespaces": ["team-b"]}
    selector = f"{_REQUIRED}[].namespaceSelector.matchLabels{{}}"
    for name, kind, term, preferred, path, gains in (
        (
            "every pod kept away",
            "podAntiAffinity",
            anywhere,
            False,
            selector,
            "a cluster in which no other team's pod is scheduled",
        ),
        (
            "another team's pods kept away",
            "podAntiAffinity",
            there,
            False,
            f"{_REQUIRED}[].namespaces[]",
            "nodes on which no pod of that team is scheduled",
        ),
        (
            "a place beside another team's pods",
            "podAffinity",
            there,
            False,
            f"{_REQUIRED}[].namespaces[]",
            "the nodes that another team's gang runs on",
        ),
        (
            "a place beside any pods, if there is one",
            "podAffinity",
            anywhere,
            True,
            f"{_PREFERRED}[].podAffinityTerm.namespaceSelector.matchLabels{{}}",
            "the nodes that another team's gang runs on",
        ),
    ):
        yield from in_each_template(
            name,
            *("spec", "affinity"),
            value=_affinity(kind, {**_EVERY_POD, **term}, preferred=preferred),
            gains=gains,
            policy=_TEMPLATES,
            path=f"spec.affinity.{kind}.{path}",
            words=("a pod of a team must not reach another team", f"namespaceSelector from affinity.{kind}"),
        )


def _volumes() -> Iterator[Attack]:
    """One rule judges all kinds, so those after the first take turns in the templates."""
    for turn, (kind, (volume, field)) in enumerate(_VOLUMES.items()):
        each = in_each_template(
            f"a volume of kind {kind}",
            *("spec", "volumes"),
            value=[{"name": "theirs", kind: volume}],
            gains=("storage without limit" if kind == "ephemeral" else "another team's data, by its address"),
            policy=_TEMPLATES,
            path=f"spec.volumes[].{kind}.{field}",
            words=("mount volume theirs from a PersistentVolumeClaim of the stack",),
        )
        yield from each if turn == 0 else [each[turn % len(each)]]


def _devices() -> Iterator[Attack]:
    """A GPU that nothing has counted, by what NVIDIA's runtime reads of a container's environment."""
    by_map = {"configMapKeyRef": {"name": "mine", "key": "gpus"}}
    for name, field, variable in (
        ("the GPUs of its node, by a variable", "containers", _variable(value="all")),
        ("a GPU by its number", "containers", _variable(value="0")),
        ("the GPUs that a ConfigMap names", "containers", _variable(valueFrom=by_map)),
        ("the GPUs of its node, in an init container", "initContainers", _variable(value="all")),
        ("the memory of another node's GPUs", "containers", _variable("NVIDIA_IMEX_CHANNELS", value="0")),
    ):
        yield from in_each_template(
            name,
            *("spec", field),
            value=[{**works.template()["spec"]["containers"][0], "name": "asks", "env": [variable]}],
            gains=_ALL_GPUS,
            policy=_TEMPLATES,
            path=f"spec.{field}[].env[].name",
            words=(f"remove {variable['name']} from env of the containers", "a pod of a team must not reach"),
        )
    for place, make in CLUSTERS.items():
        options: dict[str, Any] = {
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"env": [_variable(value="all")]},
        }
        yield Attack(
            name=f"the GPUs of its node, in the autoscaler of {place}",
            body=make(works.cluster_spec(**options)),
            gains=_ALL_GPUS,
            policy=_TEMPLATES,
            path=f"{place}.autoscalerOptions.env[].name",
            # A Ray object that is not elastic has no autoscaler.
            also=("muster-ray-size",),
        )
    all_gpus = changed(works.template(), "spec", "containers", value=[_with_all_gpus()])
    pod = changed(works.pod(0), "spec", "containers", value=[_with_all_gpus()])
    yield _by_rbac("Pod", pod, "Pod.spec.containers[].env[].name", policy="muster-pods")
    for kind, body in works.UNQUEUED.items():
        yield _by_rbac(
            kind,
            works.of_pods(body, {**all_gpus, **_LABELLED}),
            f"{kind}.spec.template.spec.containers[].env[].name",
        )


_LABELLED: Final[Object] = {"metadata": {"labels": {"app": "web"}}}
_ALL_GPUS: Final = "GPUs without quota: those of every pod of its node"


def _variable(name: str = "NVIDIA_VISIBLE_DEVICES", **value: Any) -> Object:
    return {"name": name, **value}


def _with_all_gpus() -> Object:
    one: Object = works.template()["spec"]["containers"][0]
    return {**one, "env": [_variable(value="all")]}


def _by_rbac(kind: str, body: Object, path: str, *, policy: str = _TEMPLATES) -> Attack:
    return Attack(
        name=f"{kind} with the GPUs of its node, by a variable",
        body=body,
        gains=_ALL_GPUS,
        policy=policy,
        path=path,
        words=("remove NVIDIA_VISIBLE_DEVICES from env of the containers",),
        by_rbac=True,
    )


def _unqueued() -> Iterator[Attack]:
    """What else reaches other teams from the pods of controllers that no queue knows."""
    for kind, body in works.UNQUEUED.items():
        spec = works.template(volumes=[{"name": "theirs", "nfs": _VOLUMES["nfs"][0]}])["spec"]
        yield Attack(
            name=f"{kind} with another team's share",
            body=works.of_pods(body, {**_LABELLED, "spec": spec}),
            gains="another team's data, by its address",
            policy=_TEMPLATES,
            path=f"{kind}.spec.template.spec.volumes[].nfs.path",
            words=("mount volume theirs from a PersistentVolumeClaim of the stack",),
            by_rbac=True,
        )


def _finished(name: str, path: str, word: str, gains: str, **spec: Any) -> Attack:
    return Attack(
        name=f"RayJob with {name}",
        body=works.ray_job(**spec),
        gains=gains,
        policy=_FINISHED,
        path=f"RayJob.spec.{path}",
        words=("gives back its quota", word),
    )


_FOR_GOOD: Final = "GPUs without quota, for good"
_LEGACY: Final = {"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {"policy": "DeleteWorkers"}}
_RULES: Final = {"deletionRules": [{"policy": "DeleteNone", "condition": {"jobStatus": "SUCCEEDED"}}]}

ATTACKS: Final = (
    *_elsewhere(),
    *_volumes(),
    *_devices(),
    *_unqueued(),
    _finished(
        "a cluster that stays for a year",
        "ttlSecondsAfterFinished",
        "set spec.ttlSecondsAfterFinished to 120 or less, not 31536000",
        "GPUs without quota, for a year",
        ttlSecondsAfterFinished=31536000,
    ),
    _finished(
        "a cluster that stays",
        "shutdownAfterJobFinishes",
        "set spec.shutdownAfterJobFinishes: true",
        _FOR_GOOD,
        shutdownAfterJobFinishes=False,
    ),
    _finished(
        "a head that stays",
        "deletionStrategy.onSuccess.policy",
        "remove spec.deletionStrategy",
        _FOR_GOOD,
        deletionStrategy=_LEGACY,
    ),
    _finished(
        "rules that delete nothing",
        "deletionStrategy.deletionRules[].policy",
        "remove spec.deletionStrategy",
        _FOR_GOOD,
        deletionStrategy=_RULES,
    ),
    Attack(
        name="RayService with a cluster that stays when it has failed",
        body=works.ray_service(rayClusterDeletionDelaySeconds=31536000),
        gains="GPUs without quota, for a year: KubeRay stops no service that was not ready in time",
        policy=_FINISHED,
        path="RayService.spec.rayClusterDeletionDelaySeconds",
        words=("gives back its quota", "set spec.rayClusterDeletionDelaySeconds to 120 or less"),
    ),
    _finished(
        "a Secret of its own, which is emptied later",
        "rayClusterSpec.authOptions.secretName",
        "remove spec.rayClusterSpec.authOptions.secretName, and KubeRay makes a Secret",
        "GPUs without quota for good: KubeRay cannot end the job",
        rayClusterSpec=works.cluster_spec(authOptions={"mode": "token", "secretName": "mine"}),
    ),
)
