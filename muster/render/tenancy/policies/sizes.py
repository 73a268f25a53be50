"""The size of what a team stores, in addition to the number of objects (render/tenancy/limits.py).

Every object is in etcd, and in the memory of the API server and of each controller that watches it. The API
server takes 1.5 MiB of one, and a template is copied into a Workload and into every pod.
"""

from typing import Final

from muster.model.quantities import KIB
from muster.model.stack import Stack
from muster.model.tenancy import MOST_KIBIBYTES
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import METADATA, Kinds, Policy, Rule
from muster.render.tenancy.policies.who import TRUSTED

_KINDS: Final = (
    *pod_templates.KINDS,
    Kinds(group="", resources=("configmaps", "secrets")),
)
_RESOURCES: Final = {word.lower(): word for word in MOST_KIBIBYTES}
# What an author writes of these kinds. Of managedFields there is as much as of them.
_FIELDS: Final = ("spec", "data", "binaryData")


def sizes(stack: Stack) -> Policy:
    most = {**MOST_KIBIBYTES, **stack.tenancy.sizes}
    bounds = ", ".join(f"'{resource}': {most[word]}" for resource, word in _RESOURCES.items())
    # A RayCronJob is as large as the RayJobs that it makes.
    bounds += f", 'raycronjobs': {most['rayJobs']}"
    return Policy(
        name="muster-sizes",
        purpose=(
            "Every object is in etcd and in the memory of the API server and of each controller that "
            "watches it."
        ),
        kinds=_KINDS,
        # Controllers that distribute certificates write large ConfigMaps into every namespace.
        unless=TRUSTED,
        words=(
            ("most", f"{{{bounds}}}[request.resource.resource]"),
            ("bytes", _bytes("object")),
        ),
        rules=(
            Rule(
                holds=f"variables.bytes <= variables.most * {KIB} || "
                f"(request.operation == 'UPDATE' && variables.bytes <= {_bytes('oldObject')})",
                message="object.kind + ' ' + object.metadata.name + ' has ' + "
                f"string(variables.bytes / {KIB} + 1) + "
                "' KiB, and ' + string(variables.most) + ' are allowed; make it smaller (labels and "
                "annotations count too), and load large data from a bucket or a volume'",
            ),
        ),
    )


def _bytes(of: str) -> str:
    parts = [f"dyn({of}).?{field}.orValue('')" for field in _FIELDS]
    parts += [f"dyn({of}).metadata.?{field}.orValue('')" for field in METADATA]
    return f"bytes('%s'.format([[{', '.join(f'dyn({part})' for part in parts)}]])).size()"
