"""The word that was probably meant: by its parts and by what others call the same, then by its letters.

Responsible for a suggestion that a person can trust: `h100` is no `b200`, though the letters are as similar,
and `aks` is no `eks`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from muster.model.names import DEVICE_RESOURCES, MIG_PREFIX

# How much of two words has to be alike, and how much if they do not begin alike.
_ALIKE: Final = 0.6
_ALIKE_ELSEWHERE: Final = 0.8
# Of hardware, two models that differ in a digit are different things, unless all else is the same.
_HARDWARE: Final = frozenset({"machine", "accelerator"})
_ALIKE_MODELS: Final = 0.88
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+\d*[a-z]*|[A-Z]+(?![a-z])\d*|\d+[a-z]*")
_MODEL: Final = re.compile(r"[a-z]+\d+[a-z]*")
_SHORTEST_PART: Final = 2

_OWN: Final = (
    "write `provider: existing` for a cluster that Muster does not make, and `context:` of its kubeconfig"
)
_SPOT: Final = "write `capacity: spot`"
_QUEUED: Final = "write `capacity: queued`"
_COUNT: Final = "maxNodes"
# What clouds, Kueue, Ray and other programs call it; by the noun of the word, or "key". What has a space is
# an instruction.
MEANINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "provider": {
            **dict.fromkeys(("gcp", "google", "googlecloud"), "gke"),
            **dict.fromkeys(("aws", "amazon"), "eks"),
            **dict.fromkeys(("aks", "azure", "oke", "oracle", "doks", "coreweave", "lambda", "nebius"), _OWN),
            **dict.fromkeys(("onprem", "onpremise", "onpremises", "baremetal", "other", "none"), _OWN),
            **dict.fromkeys(("kubernetes", "k8s", "k3s", "kind", "minikube", "rke", "rke2"), _OWN),
            **dict.fromkeys(("openshift", "rancher", "local", "microk8s", "kops", "kubeadm"), _OWN),
        },
        "capacity": {
            **dict.fromkeys(("dws", "queuedprovisioning", "queue"), "queued"),
            **dict.fromkeys(("preemptible", "preemptive", "interruptible"), "spot"),
            **dict.fromkeys(("reserved", "odcr", "committed"), "reservation"),
            **dict.fromkeys(("standard", "permanent", "always"), "on-demand"),
        },
        "scheduler": {"runai": "kai", "kaischeduler": "kai"},
        "gangAdmission": {
            **dict.fromkeys(("on", "yes", "enabled"), "muster"),
            **dict.fromkeys(("kueue", "provisioningrequest"), "builtin"),
            **dict.fromkeys(("no", "none", "disabled", "never"), "off"),
        },
        "tenancy": {
            **dict.fromkeys(("audit", "dryrun", "warning"), "warn"),
            **dict.fromkeys(("on", "yes", "strict", "enabled", "deny"), "enforce"),
            **dict.fromkeys(("no", "none", "disabled"), "off"),
        },
        "artifacts": dict.fromkeys(("registry", "remote", "public", "online"), "upstream"),
        "key": {
            # Of the whole stack.
            **dict.fromkeys(("queues", "clusterqueues", "localqueues", "tree", "orgs"), "departments"),
            **dict.fromkeys(("nodepools", "nodegroups", "flavors", "resourceflavors"), "pools"),
            **dict.fromkeys(("priorityclasses", "workloadpriorityclasses"), "priorities"),
            **dict.fromkeys(("gang", "gangs", "gangscheduling"), "gangAdmission"),
            **dict.fromkeys(("waitforpodsready",), "podsReady"),
            # Of the cluster.
            **dict.fromkeys(("location",), "region"),
            **dict.fromkeys(("availabilityzones", "azs", "locations"), "zones"),
            **dict.fromkeys(("projectid", "account"), "project"),
            **dict.fromkeys(("kubernetesversion", "k8sversion", "masterversion"), "version"),
            **dict.fromkeys(("deletionprotection",), "protect"),
            **dict.fromkeys(("publicaccesscidrs",), "publicCidrs"),
            **dict.fromkeys(("masterauthorizednetworks", "allowedcidrs"), "authorizedNetworks"),
            **dict.fromkeys(("vpc", "subnets"), "network"),
            **dict.fromkeys(("kubecontext",), "context"),
            # Of a pool.
            **dict.fromkeys(("machinetype", "instancetype", "instance", "instancetypes", "vm"), "machine"),
            **dict.fromkeys(("gpu", "gputype", "gpumodel", "acceleratortype"), "accelerator"),
            **dict.fromkeys(("gpus", "gpucount", "numgpus", "acceleratorcount"), "gpusPerNode"),
            **dict.fromkeys(("tputopology", "slicetopology"), "topology"),
            **dict.fromkeys(("max", "maxsize", "maxcount", "maxnodecount", "size", "count"), _COUNT),
            **dict.fromkeys(("nodes", "nodecount", "replicas", "maxreplicas"), _COUNT),
            **dict.fromkeys(("min", "minsize", "mincount", "minnodecount", "minreplicas"), "minNodes"),
            **dict.fromkeys(("disksize", "disksizegb", "bootdisksize", "bootdisk", "disk"), "bootDiskGiB"),
            **dict.fromkeys(("cpus", "cores", "vcpu", "vcpus"), "cpu"),
            **dict.fromkeys(("ram", "mem"), "memory"),
            **dict.fromkeys(("vram", "acceleratormemory"), "gpuMemory"),
            "gpuspernode": "gpus",
            **dict.fromkeys(("lifetime", "maxlifetime", "ttl"), "maxRunDuration"),
            **dict.fromkeys(("queuedprovisioning", "queued", "dws"), _QUEUED),
            "flexstart": "write `capacity: flex-start`, or `capacity: queued`",
            **dict.fromkeys(("spot", "preemptible", "interruptible"), _SPOT),
            **dict.fromkeys(("reserved", "odcr"), "write `capacity: reservation` and `reservation: NAME`"),
            "timeslicing": "write `sharing: time-slicing` and `shares: 4`",
            "mps": "write `sharing: mps` and `shares: 4`",
            "mig": "write `sharing: mig` and `migProfile: 1g.10gb`",
            # Of a team.
            **dict.fromkeys(("nominalquota", "guaranteed", "requests", "resources", "guarantee"), "quota"),
            **dict.fromkeys(("borrowinglimit", "limit", "limits", "burst", "maxborrow"), "borrow"),
            **dict.fromkeys(("lendinglimit",), "lend"),
            **dict.fromkeys(("share", "shares", "fairshare", "fairweight", "weights"), "weight"),
            **dict.fromkeys(("users", "groups", "admins", "owners", "people", "subjects"), "members"),
            **dict.fromkeys(("priority", "priorityclass"), "priorities"),
            **dict.fromkeys(("serviceaccount", "gsa", "iamrole", "rolearn"), "identity"),
            **dict.fromkeys(("imagepullsecrets",), "pullSecrets"),
            **dict.fromkeys(("pvcs", "claims", "persistentvolumeclaims"), "volumes"),
            **dict.fromkeys(("queuename", "queue"), "localQueue"),
            **dict.fromkeys(("queueingstrategy",), "queueing"),
            # Of gangAdmission.
            **dict.fromkeys(("timeout", "bookingtimeout"), "provisionTimeout"),
            # Above all others, for where the keys before are not.
            "teams": "departments",
        },
    }
)


def meant(word: str, allowed: Iterable[str], *, noun: str) -> tuple[str | None, str]:
    """The allowed word that was probably meant, or None; and an instruction instead, or ""."""
    choices = sorted(allowed)
    if (same := {_plain(each): each for each in choices}.get(_plain(word))) is not None:
        return same, ""
    meaning = MEANINGS.get(noun, {}).get(_plain(word), "")
    if meaning in choices:
        return meaning, ""
    if " " in meaning and (noun != "key" or {"capacity", "sharing"} & set(choices)):
        return None, meaning
    return _by_parts(word, choices) or _by_letters(word, choices, noun=noun), ""


def meant_resource(word: str, known: Iterable[str]) -> str | None:
    """The resource that was probably meant where a container asks for another one: of the known ones, else of
    the devices of any node. None for the name of a device, and for a slice of one.
    """
    if word in DEVICE_RESOURCES or word.startswith(MIG_PREFIX):
        return None
    one = word.removesuffix("s")
    return meant(one, known, noun="resource")[0] or meant(one, DEVICE_RESOURCES, noun="resource")[0]


@lru_cache(maxsize=1024)
def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


@lru_cache(maxsize=1024)
def _parts(word: str) -> frozenset[str]:
    return frozenset(each.lower() for each in _PARTS.findall(word))


def _by_parts(word: str, choices: list[str]) -> str | None:
    """The shortest choice that has every part of the word: `t4` is in `nvidia-tesla-t4`."""
    parts = _parts(word)
    if not parts or min(map(len, parts)) < _SHORTEST_PART:
        return None
    return min((each for each in choices if parts <= _parts(each)), key=len, default=None)


def _by_letters(word: str, choices: list[str], *, noun: str) -> str | None:
    found = [(_likeness(word, each), each) for each in choices]
    if noun in _HARDWARE:
        models = {part for part in _parts(word) if _MODEL.fullmatch(part)}
        found = [
            (likeness, each)
            for likeness, each in found
            if likeness >= _ALIKE_MODELS or models & _parts(each) or not models
        ]
    close = [
        (likeness, each)
        for likeness, each in found
        if likeness >= _needed(word, each) or _one_letter(word, each)
    ]
    return min(close, key=lambda pair: (-pair[0], len(pair[1]), pair[1]))[1] if close else None


def _needed(word: str, other: str) -> float:
    """How much of two words has to be alike."""
    return _ALIKE if other[:1] == word[:1] else _ALIKE_ELSEWHERE


def _likeness(word: str, other: str) -> float:
    """From 0 to 1; 0 for words whose letters alone are too different, which is known sooner."""
    matcher = difflib.SequenceMatcher(None, word.lower(), other.lower())
    least = 0 if _one_letter(word, other) else _needed(word, other)
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0
    return matcher.ratio()


def _one_letter(word: str, other: str) -> bool:
    """Words as short as the names of pools, that differ in their last letter or in the order of two."""
    swapped = sorted(word) == sorted(other) and sum(a != b for a, b in zip(word, other, strict=True)) == 2
    return word[:1] == other[:1] and (
        swapped or (len(word) == len(other) and sum(a != b for a, b in zip(word, other, strict=True)) == 1)
    )
