"""What a pod requests counts: one rule for pod templates, and how many pods work has at a time.

A queue adds up requests. One of nothing lets any number of pods in, and one below zero takes away from the
count of another container: KubeRay's definitions allow both. The least that a container requests is the
namespace's (limits.py), by which Kueue and the API server judge pods too. KubeRay (1.6.2) and Kueue (0.19.2)
multiply replicas and hosts in 32 bits.
"""

from typing import Final

from muster.model.quantities import parse_quantity
from muster.model.work import WORK
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import container_faults, fault
from muster.render.tenancy.team import LEAST_REQUEST

_LEAST: Final = ", ".join(f"'{name}': {float(parse_quantity(text))}" for name, text in LEAST_REQUEST.items())
_FIX: Final = " and ".join(f"{name} of {text} or more" for name, text in LEAST_REQUEST.items())
# Of `resources`, those of a container or of a pod as a whole.
_TOO_LITTLE: Final = (
    "[{of}.?resources.?requests, {of}.?resources.?limits].exists(amounts, amounts.orValue(dyn({{}})).exists("
    "name, quantity(string(amounts.value()[name])).asApproximateFloat() < "
    f"{{{{{_LEAST}}}}}[?name].orValue(0.0)))"
)


def faults() -> str:
    """What of `pod` (pod_templates.pod_of) an author has to change, as a CEL list of lists of sentences."""
    too_little = (_TOO_LITTLE.format(of="each"), f"'request {_FIX}, and nothing below zero'")
    of_containers = container_faults({"has(each.resources)": [too_little]})
    of_pod = (
        fault(_TOO_LITTLE.format(of="pod.spec"), f"'request {_FIX} in spec.resources'"),
        fault(
            "pod.spec.?overhead.orValue(dyn({})).size() > 0",
            "'remove overhead, which is that of its runtimeClassName'",
        ),
    )
    return f"{of_containers} + [{' + '.join(of_pod)}]"


def too_many(when: str, of: str, most: int) -> str:
    """Whether work has more pods at a time than `most`, by the words `groups` and `cluster`. A factor is
    compared first, so that no product overflows.
    """
    hosts, replicas = "group.?numOfHosts.orValue(1)", "group.?replicas.orValue(1)"
    groups = f"variables.cluster{when}.?workerGroupSpecs.orValue([])"
    of_ray = (
        f"{groups}.exists(group, {replicas} > {most} || {hosts} > {most}) || "
        f"{groups}.map(group, {replicas} * {hosts}).sum() >= {most}"
    )
    of_others = list[str]()
    for pods in dict.fromkeys(pods for work in WORK for pods in work.pods if pods.factors):
        groups = pod_templates.groups_at(pods.template, when) if pods.template.groups else f"[{{'of': {of}}}]"
        counts = [f"{pod_templates.optional('group.of', each)}.orValue(1)" for each in pods.factors]
        of_others.append(f"{groups}.exists(group, {' || '.join(f'{each} > {most}' for each in counts)})")
        if pods.template.groups or len(counts) > 1:
            of_others.append(f"{groups}.map(group, {' * '.join(counts)}).sum() > {most}")
    return f"request.resource.group == 'ray.io' ? {of_ray} : {' || '.join(of_others)}"
