"""How many pods work has at a time.

KubeRay (1.6.2) and Kueue (0.19.2) multiply replicas and hosts in 32 bits.
"""

from muster.model.work import WORK
from muster.render.tenancy.policies import pod_templates


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
