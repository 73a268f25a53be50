"""What of a pod reaches beyond its team: one rule for pods and for pod templates.

Anti-affinity that names all namespaces keeps every team's pods from its nodes. A volume that is named by an
address or an identity is mounted over the network of the node, past the network policies of the namespace,
and may be another team's. A volume claim in a template is storage that no quota limits; a team's claims come
from the stack. NVIDIA's runtime gives a container the GPUs of others that its environment names, where a
node's own settings let it (muster/render/user_data.py).
"""

from typing import Final

from muster.render.tenancy.policies.who import quoted

# Objects of the namespace and the pod itself. A CSI driver serves a pod without a claim only if the platform
# team has installed it for that. hostPath is judged by the Pod Security Standard (pod_security.py).
_VOLUMES: Final = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "hostPath", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
)


# Source: https://github.com/NVIDIA/nvidia-container-toolkit at v1.20.0, internal/config/image/cuda_image.go,
# read 2026-11-27
_DEVICES: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_IMEX_CHANNELS")
_NO_DEVICES: Final = ("", "none", "void")
# Of `container` and `name`.
_SETS: Final = (
    "container.?env.orValue([]).exists(each, each.name == name && "
    f"(each.?valueFrom.hasValue() || !(each.?value.orValue('') in {quoted(_NO_DEVICES)})))"
)


def faults() -> str:
    """What of `pod` (pod_templates.pod_of) an author has to change, as a CEL list of sentences."""
    elsewhere = (
        "term.?namespaceSelector.hasValue() || "
        "term.?namespaces.orValue([]).exists(each, each != request.namespace)"
    )
    return " + ".join(
        (
            f"['podAffinity', 'podAntiAffinity'].filter(kind, {_terms('pod.spec.?affinity[?kind]')}"
            f".exists(term, {elsewhere}))"
            ".map(kind, 'remove namespaces and namespaceSelector from affinity.' + kind)",
            "pod.spec.?volumes.orValue([]).filter(volume, volume.exists(key, key != 'name' && "
            f"!(key in {quoted(_VOLUMES)}))).map(volume, 'mount volume ' + volume.name + ' from a "
            "PersistentVolumeClaim of the stack')",
            f"{quoted(_DEVICES)}.filter(name, pod.containers.exists(container, {_SETS}))"
            ".map(name, 'remove ' + name + ' from env of the containers, and request GPUs in resources')",
        )
    )


def _terms(of: str) -> str:
    required = f"{of}.?requiredDuringSchedulingIgnoredDuringExecution.orValue([])"
    preferred = f"{of}.?preferredDuringSchedulingIgnoredDuringExecution.orValue([])"
    return f"({required} + {preferred}.map(each, each.podAffinityTerm))"
