"""Pod templates of which pods can be made.

KubeRay's definitions take templates that the API server refuses as pods: nodes are bought, the head starts,
and the workers never. The API server judges the templates of batch Jobs itself; they are read here as well,
so that `muster check` gives the same answer without it.
Source: https://github.com/kubernetes/kubernetes at v1.34.4, pkg/apis/core/validation/validation.go, read
2026-11-27. Responsible for what public manifests get wrong, not for all of that file.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.model.work import WORK
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import (
    SYSTEM,
    Policy,
    Rule,
    container_faults,
    fault,
    kinds_of,
    quoted,
)

_NAME: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
# Volumes that KubeRay adds to the pods of a cluster (ray-operator/controllers/ray/common/pod.go at v1.6.2).
_OF_KUBERAY: Final = ("shared-mem", "ray-logs")
_ADDED: Final = f"(request.resource.group == 'ray.io' ? {quoted(_OF_KUBERAY)} : [])"
_PULLS: Final = ("", "Always", "IfNotPresent", "Never")
_OPERATORS: Final = ("", "Equal", "Exists")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_LIMITS, _REQUESTS = (f"each.?resources.?{field}.orValue(dyn({{}}))" for field in ("limits", "requests"))
_LIMIT, _REQUEST = (f"quantity(string({of}[name])).asApproximateFloat()" for of in (_LIMITS, _REQUESTS))
# Of a vendor, or huge pages: what Kubernetes does not overcommit.
_FIXED: Final = "((name.contains('/') && !name.contains('kubernetes.io/')) || name.startsWith('hugepages-'))"
# Most are written alike; a quantity takes longer to read.
_UNLIKE: Final = f"{_REQUESTS}[name] != {_LIMITS}[name]"
_AS_LIMIT: Final = f"{_FIXED} && (!(name in {_LIMITS}) || ({_UNLIKE} && {_REQUEST} != {_LIMIT}))"
_ABOVE: Final = f"!{_FIXED} && name in {_LIMITS} && {_UNLIKE} && {_REQUEST} > {_LIMIT}"
_PART: Final = f"name.contains('/') && {_FIXED} && {_LIMIT} != double(int({_LIMIT}))"
_NO_RESOURCE: Final = f"!(name in {quoted(_PLAIN)}) && !name.contains('/') && !name.startsWith('hugepages-')"


def pod_valid(stack: Stack) -> Policy:
    return Policy(
        name="muster-pod-valid",
        purpose=(
            "KubeRay's definitions take templates of which no pod can be made: nodes would be bought for "
            "pods that never start."
        ),
        kinds=kinds_of(stack.judged_work),
        # What the system makes has the templates of an object that was checked.
        unless=(("the-system", SYSTEM),),
        words=_words(),
        rules=(
            Rule(
                holds="variables.new.size() == 0",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + ' would never run: "
                "no pod can be made of a template. ' + " + pod_templates.joined_faults("variables.new"),
            ),
        ),
    )


def _words() -> list[tuple[str, str]]:
    words = [pod_templates.JOB_PATH, ("clusterPath", pod_templates.CLUSTER_PATH), pod_templates.BEFORE]
    # One word a part: CEL parses no deep expression.
    parts = {"ofAmounts": _amounts(), "ofNames": _names(), "ofFields": _fields()}
    for when, of in (("Before", "variables.before"), ("", "object")):
        words += pod_templates.words(when, of)
        shape = pod_templates.pod_of("part.path", "part.template")
        words.append((f"pods{when}", f"variables.parts{when}.map(part, {shape})"))
        words += [
            (f"{word}{when}", pod_templates.faulty(f"variables.pods{when}", faults))
            for word, faults in parts.items()
        ]
        words.append((f"faults{when}", " + ".join(f"variables.{word}{when}" for word in parts)))
    return [*words, ("new", pod_templates.new_faults("variables.faults", "variables.faultsBefore"))]


def _amounts() -> str:
    """Of the resources of containers."""

    def amiss(of: str, condition: str, fix: str) -> tuple[str, str]:
        listed = f"{of}.filter(name, {condition}).join(', ')"
        return f"{of}.exists(name, {condition})", f"'{fix} ' + {listed}"

    return _of_containers(
        {
            f"{_REQUESTS} != {_LIMITS}": [
                amiss(_REQUESTS, _AS_LIMIT, "under limits write as much as under requests of"),
                amiss(
                    _REQUESTS, _ABOVE, "requests are above limits: raise the limit or lower the request of"
                ),
            ],
            "has(each.resources)": [
                amiss(_LIMITS, _PART, "ask for a whole number, no part, of"),
                amiss(
                    _LIMITS, _NO_RESOURCE, f"write {names.GPU_RESOURCE}, {' or '.join(_PLAIN)} in place of"
                ),
            ],
        }
    )


def _of_containers(faults: Mapping[str, Iterable[tuple[str, str]]]) -> str:
    return container_faults(faults, unnamed="(unnamed)")


def _names() -> str:
    """Of containers, volumes and mounts."""
    volumes = "pod.spec.?volumes.orValue([])"
    mounts = "each.volumeMounts"
    given = f"({volumes}.map(volume, volume.?name.orValue('')) + {_ADDED})"
    lost = f"!(mount.?name.orValue('') in {given})"
    same = "{of}.filter(other, other.?{key}.orValue('') == {one}.?{key}.orValue('')).size() > 1"
    twice = same.format(of=mounts, one="mount", key="mountPath")
    claimed = "pod.spec.?resourceClaims.orValue([]).exists(claim, claim.?name.orValue('') == used.name)"
    used = "each.?resources.?claims.orValue([])"
    of_containers = {
        "": [
            (f"!each.?name.orValue('').matches('{_NAME}')", "'write a name of at most 63 of a-z, 0-9 and -'"),
            (
                same.format(of="pod.containers", one="each", key="name"),
                "'give each container a name of its own'",
            ),
        ],
        "has(each.volumeMounts)": [
            (
                f"{mounts}.exists(mount, {lost})",
                "'add to volumes, or do not mount, ' + "
                f"{mounts}.filter(mount, {lost}).map(mount, mount.?name.orValue('')).join(', ')",
            ),
            (
                f"{mounts}.exists(mount, {twice})",
                "'mount one volume alone at ' + "
                f"{mounts}.filter(mount, {twice})[0].?mountPath.orValue('(nowhere)')",
            ),
        ],
        "has(each.resources)": [
            (
                f"{used}.exists(used, !({claimed}))",
                f"'add to resourceClaims of the pod, or do not claim, ' + {used}.filter(used, !({claimed}))"
                ".map(used, used.name).join(', ')",
            ),
        ],
    }
    of_volumes = (
        f"{volumes}.filter(each, {same.format(of=volumes, one='each', key='name')}).map(each, 'volume ' + "
        "each.?name.orValue('') + ': give each volume a name of its own')",
        f"{volumes}.filter(each, each.filter(key, key != 'name').size() > 1).map(each, 'volume ' + "
        "each.?name.orValue('') + ': keep one of ' + each.filter(key, key != 'name').join(', '))",
    )
    empty = fault("pod.spec.?containers.orValue([]).size() == 0", "'add a container'")
    return f"[{empty}] + {_of_containers(of_containers)} + [{' + '.join(of_volumes)}]"


def _fields() -> str:
    """Values of fields that the definitions of Ray leave open."""
    restarts = (
        "(request.resource.group == 'batch' ? ['Never', 'OnFailure'] : ['', 'Always', 'Never', 'OnFailure'])"
    )
    tolerations = "pod.spec.?tolerations.orValue([])"
    unnamed = "entry.?name.orValue('') == ''"
    twofold = "entry.?value.orValue('') != '' && entry.?valueFrom.hasValue()"
    no_port = "entry.?containerPort.orValue(0) < 1 || entry.?containerPort.orValue(0) > 65535"
    of_containers = {
        "": [("each.?image.orValue('') == ''", "'write its image'")],
        "has(each.env)": [
            (f"each.env.exists(entry, {unnamed})", "'give each entry of env a name'"),
            (
                f"each.env.exists(entry, {twofold})",
                f"'write value or valueFrom, not both, of ' + each.env.filter(entry, {twofold})[0].name",
            ),
        ],
        "has(each.ports)": [
            (f"each.ports.exists(entry, {no_port})", "'write each containerPort from 1 to 65535'"),
        ],
        "has(each.imagePullPolicy)": [
            (
                f"!(each.imagePullPolicy in {quoted(_PULLS)})",
                f"'set imagePullPolicy to {', '.join(_PULLS[1:])}'",
            ),
        ],
    }
    of_pod = (
        fault(
            f"!(pod.spec.?restartPolicy.orValue('') in {restarts})",
            "'set restartPolicy to Never or OnFailure'",
        ),
        fault(
            f"request.resource.resource in {quoted([each.resource for each in WORK if each.serves])} && "
            "!(pod.spec.?restartPolicy.orValue('') in ['', 'Always'])",
            "'remove restartPolicy: these pods are always restarted'",
        ),
        f"{tolerations}.filter(each, !(each.?operator.orValue('') in {quoted(_OPERATORS)}) || "
        f"!(each.?effect.orValue('') in {quoted(_EFFECTS)})).map(each, 'toleration ' + "
        f"each.?key.orValue('') + ': write operator Equal or Exists, and as effect {', '.join(_EFFECTS[1:])} "
        "or none')",
        f"{tolerations}.filter(each, each.?operator.orValue('') == 'Exists' && each.?value.orValue('') != '')"
        ".map(each, 'toleration ' + each.?key.orValue('') + ': remove its value, or write operator Equal')",
    )
    return f"{_of_containers(of_containers)} + [{' + '.join(of_pod)}]"
