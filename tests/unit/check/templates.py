"""Pod templates of which the API server makes pods, and of which it makes none."""

import copy
from typing import Any

from tests.unit.check.stacks import pod

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def worker(spec: Json | None = None, **container: Any) -> Json:
    """A worker that would run, but for what its spec and its container have instead."""
    found = copy.deepcopy(pod(1))
    found["spec"]["containers"][0] |= container
    found["spec"] |= spec or {}
    return found


def resources(limits: Json | None = None, requests: Json | None = None) -> Json:
    return {"limits": {"cpu": "2", "memory": "8Gi", **(limits or {})}, "requests": requests or {}}


def required(rules: list[Json]) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
DATA = [{"name": "data", "emptyDir": {}}]
TWO = [{"name": "same", "image": "i"}, {"name": "same", "image": "i"}]
BAD: dict[str, tuple[Json, str]] = {
    "GPUs in requests alone": (
        worker(resources=resources(requests={GPU: 1})),
        f"limits write as much as under requests of {GPU}",
    ),
    "fewer GPUs in requests": (worker(resources=resources({GPU: 2}, {GPU: 1})), GPU),
    "half a GPU": (worker(resources=resources({GPU: "500m"})), f"whole number, no part, of {GPU}"),
    "huge pages in requests alone": (
        worker(resources=resources({GPU: 1}, {"hugepages-2Mi": "1Gi"})),
        "hugepages-2Mi",
    ),
    "requests above limits": (
        worker(resources=resources({GPU: 1}, {"memory": "9Gi"})),
        "lower the request of memory",
    ),
    "a resource without a vendor": (worker(resources=resources({"gpu": 1})), f"write {GPU}"),
    "no container": (worker({"containers": []}), "add a container"),
    "two of a name": (worker({"containers": TWO}), "a name of its own"),
    "no name": (worker(name=""), "write a name"),
    "no image": (worker(image=""), "write its image"),
    "a mount without its volume": (
        worker(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        "add to volumes, or do not mount, data",
    ),
    "two mounts at a path": (
        worker(
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
            volumeMounts=[{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}],
        ),
        "one volume alone at /x",
    ),
    "two volumes of a name": (
        worker({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
        "each volume a name of its own",
    ),
    "a volume of two kinds": (
        worker({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "c"}}]}),
        "keep one of",
    ),
    "a claim that the pod lacks": (
        worker(resources={**resources({GPU: 1}), "claims": [{"name": "imex"}]}),
        "do not claim, imex",
    ),
    "a variable without a name": (worker(env=[{"value": "x"}]), "each entry of env a name"),
    "two values of a variable": (
        worker(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
        "not both, of A",
    ),
    "a port that is none": (worker(ports=[{"containerPort": 70000}]), "containerPort from 1 to 65535"),
    "a pull policy": (worker(imagePullPolicy="Sometimes"), "imagePullPolicy"),
    "a restart policy": (worker({"restartPolicy": "Sometimes"}), "restartPolicy"),
    "an operator of a toleration": (
        worker({"tolerations": [{"key": GPU, "operator": "Exist"}]}),
        "operator Equal or Exists",
    ),
    "a value of Exists": (
        worker({"tolerations": [{"key": GPU, "operator": "Exists", "value": "present"}]}),
        "remove its value",
    ),
    "a name of a volume": (
        worker({"volumes": [{"name": "hf_cache", "emptyDir": {}}]}),
        "volume hf_cache: write a name",
    ),
    "a mode in decimal": (
        worker({"volumes": [{"name": "a", "configMap": {"name": "c", "defaultMode": 777}}]}),
        "defaultMode in octal",
    ),
    "a mount without a path": (
        worker({"volumes": DATA}, volumeMounts=[{"name": "data", "mountPath": ""}]),
        "a mountPath without a colon",
    ),
    "a path below that is absolute": (
        worker({"volumes": DATA}, volumeMounts=[{"name": "data", "mountPath": "/a", "subPath": "/b"}]),
        "as subPath one below",
    ),
    "a variable with its value": (worker(env=[{"name": "NCCL_DEBUG=INFO"}]), "write name and value apart"),
    "a field of no pod": (
        worker(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.nodeName"}}}]),
        "not status.nodeName",
    ),
    "two sources of variables": (
        worker(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]),
        "configMapRef or secretRef",
    ),
    "a protocol": (worker(ports=[{"containerPort": 1, "protocol": "tcp"}]), "TCP, UDP or SCTP"),
    "a scheme": (
        worker(livenessProbe={"httpGet": {"port": 1, "scheme": "http"}}),
        "set scheme to HTTP or HTTPS",
    ),
    "a threshold": (
        worker(livenessProbe={"httpGet": {"port": 1}, "successThreshold": 2}),
        "set successThreshold to 1",
    ),
    "a hook without an action": (worker(lifecycle={"preStop": {}}), "one of exec, httpGet, sleep"),
    "a probe of an init container": (
        worker(
            {"initContainers": [{"name": "b", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]}
        ),
        "container b: remove probes and lifecycle",
    ),
    "a container of a debugger": (
        worker({"ephemeralContainers": [{"name": "debugger", "image": "i"}]}),
        "remove ephemeralContainers",
    ),
    "no time": (worker({"activeDeadlineSeconds": 0}), "set activeDeadlineSeconds to 1"),
    "a name of a host": (worker({"hostname": "worker_0"}), "write a hostname"),
    "no name servers": (worker({"dnsPolicy": "None"}), "write dnsConfig.nameservers"),
    "a value that no label has": (worker({"nodeSelector": {"a": "NVIDIA H100"}}), "values of nodeSelector"),
    "a skew": (
        worker({"topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}),
        "topologySpreadConstraints by a: write maxSkew",
    ),
    "seconds of a toleration": (
        worker({"tolerations": [{"key": GPU, "operator": "Exists", "tolerationSeconds": 300}]}),
        "remove tolerationSeconds",
    ),
    "an operator of an affinity": (
        worker(required([{"key": "a", "operator": "Equals", "values": ["b"]}])),
        "nodeAffinity by a: write operator",
    ),
    "no values of an affinity": (
        worker(required([{"key": "a", "operator": "In"}])),
        "nodeAffinity by a: write operator",
    ),
    "a weight": (
        worker({"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}}),
        "from 1 to 100",
    ),
    "GPUs of a pod": (
        worker({"resources": {"limits": {GPU: 1}}}),
        f"under resources of a container, not of the pod, {GPU}",
    ),
    "containers above their pod": (
        worker({"resources": {"requests": {"cpu": "1"}}}, resources=resources(requests={"cpu": "2"})),
        "raise spec.resources.requests",
    ),
    "root that may not be": (
        worker({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}),
        "set runAsUser to another than 0",
    ),
    "no spec": ({"metadata": {"labels": {"a": "b"}}}, "add a container"),
}


BAD |= {
    f"no escalation beside {key}": (
        worker(securityContext={"allowPrivilegeEscalation": False, key: value}),
        "remove allowPrivilegeEscalation: false",
    )
    for key, value in (("privileged", True), ("capabilities", {"add": ["CAP_SYS_ADMIN"]}))
}
GOOD: dict[str, Json] = {
    "as much as it limits": worker(resources=resources({GPU: 2}, {GPU: "2", "cpu": "1", "memory": "8Gi"})),
    "a volume that KubeRay adds": worker(volumeMounts=[{"name": "shared-mem", "mountPath": "/dev/shm"}]),
    "a volume of its own": worker(
        {"volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]},
        volumeMounts=[{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}],
    ),
    "an init container": worker({"initContainers": [{"name": "init", "image": "i"}]}),
    "a variable of the pod": worker(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "B"}]
    ),
    "a GPU as a whole number of thousandths": worker(resources=resources({GPU: "1000m"})),
    "a taint with its value": worker(
        {"tolerations": [{"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}]}
    ),
    "containers within their pod": worker(
        {"resources": {"requests": {"cpu": "300m", "memory": "8Gi"}}},
        resources=resources({GPU: 1}, {"cpu": "300m", "memory": "8Gi"}),
    ),
    "a sidecar with a probe": worker(
        {
            "initContainers": [
                {
                    "name": "log",
                    "image": "i",
                    "restartPolicy": "Always",
                    "startupProbe": {"tcpSocket": {"port": 1}, "successThreshold": 1},
                }
            ]
        }
    ),
    "fields of a pod": worker(
        {"nodeSelector": {"muster.dev/pool": "l4"}, "hostname": "a", "activeDeadlineSeconds": 1},
        env=[
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in {
                "A": "spec.nodeName",
                "B": "metadata.labels['ray.io/group']",
                "C": "status.podIPs",
            }.items()
        ],
        ports=[{"containerPort": 1, "protocol": "UDP"}],
        lifecycle={"preStop": {"exec": {"command": ["ray", "stop"]}}},
    ),
    "rules of an affinity": worker(
        {
            **required([{"key": "muster.dev/pool", "operator": "In", "values": ["l4"]}]),
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
        }
    ),
}
