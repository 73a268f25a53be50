"""The size of what a team stores, in addition to the number of objects (render/tenancy/team.py).

Every object is in etcd, and in the memory of the API server and of each controller that watches it. The API
server takes 1.5 MiB of one, and a template is copied into a Workload and into every pod. Work of more pods
than the namespace may hold never runs whole.
"""

from typing import Final

from muster.model.quantities import KIB
from muster.model.stack import Stack
from muster.model.tenancy import MOST_KIBIBYTES
from muster.model.work import COUNTED, WORK, by_group
from muster.render.tenancy.policies import amounts, pod_templates
from muster.render.tenancy.policies.policy import METADATA, TRUSTED, Kinds, Policy, Rule, kinds_of, quoted
from muster.render.tenancy.team import most_objects

_RESOURCES: Final = {word.lower(): word for word in MOST_KIBIBYTES}
_COUNTS: Final = {
    each.kind: f"{' and '.join(count.split('.')[-1] for count in pods.factors)} in "
    f"{pods.template.groups or 'spec'}"
    for each in COUNTED
    for pods in each.pods
    if pods.factors
}
# What an author writes of these kinds. Of managedFields there is as much as of them.
_FIELDS: Final = ("spec", "data", "binaryData")


def sizes(stack: Stack) -> Policy:
    most = {**MOST_KIBIBYTES, **stack.tenancy.sizes}
    bounds = ", ".join(f"'{resource}': {most[word]}" for resource, word in _RESOURCES.items())
    # A RayCronJob is as large as the RayJobs that it makes.
    bounds += f", 'raycronjobs': {most['rayJobs']}"
    pods = most_objects(stack)["pods"]
    return Policy(
        name="muster-sizes",
        purpose=(
            "Every object is in etcd and in the memory of the API server and of each controller that "
            "watches it."
        ),
        kinds=(*kinds_of(stack.judged_work), Kinds(group="", resources=("configmaps", "secrets"))),
        # Controllers that distribute certificates write large ConfigMaps into every namespace.
        unless=TRUSTED,
        words=(
            ("most", f"{{{bounds}}}[request.resource.resource]"),
            ("bytes", _bytes("object")),
            pod_templates.JOB_PATH,
            pod_templates.BEFORE,
            *_pods_words("", "object", pods),
            *_pods_words("Before", "variables.before", pods),
        ),
        rules=(
            Rule(
                holds="!variables.tooMany || variables.tooManyBefore",
                message="object.kind + ' ' + object.metadata.name + ' has more than the "
                f"{pods} pods that its namespace holds; lower ' + (request.resource.group == 'batch' ? "
                "variables.jobPath + 'spec.parallelism' : request.resource.group == 'ray.io' ? "
                "'replicas and numOfHosts of its worker groups' : "
                f"{_COUNTS}[object.kind])",
            ),
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


def _pods_words(when: str, of: str, most: int) -> tuple[tuple[str, str], ...]:
    """ConfigMaps and Secrets have no pods."""
    is_work = f"request.resource.group in {quoted(tuple(by_group(WORK)))}"
    return (
        pod_templates.groups_word(when, of),
        pod_templates.cluster_word(when, of),
        (f"tooMany{when}", f"{is_work} && ({amounts.too_many(when, of, most)})"),
    )


def _bytes(of: str) -> str:
    parts = [f"dyn({of}).?{field}.orValue('')" for field in _FIELDS]
    parts += [f"dyn({of}).metadata.?{field}.orValue('')" for field in METADATA]
    return f"bytes('%s'.format([[{', '.join(f'dyn({part})' for part in parts)}]])).size()"
