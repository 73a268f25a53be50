"""Work that KAI never starts, or that would not run as its author means it, by the object alone."""

from typing import Final

from muster.model import names
from muster.model.work import WORK
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, SYSTEM, Kinds, Policy, Rule, kinds_of, quoted

# Of a RayJob, what KubeRay counts from the moment at which it makes the cluster (rayjob_controller.go).
_DEADLINES: Final = ("activeDeadlineSeconds", "preRunningDeadlineSeconds")


def kai_sharing() -> Policy:
    """Where KAI's GPU sharing is off."""
    words = [pod_templates.JOB_PATH, ("clusterPath", pod_templates.CLUSTER_PATH), pod_templates.BEFORE]
    for when, of in (("Before", "variables.before"), ("", "object")):
        words += pod_templates.words(when, of)
    asks = f"each.?metadata.?annotations.orValue(dyn({{}})).exists(key, key in {quoted(names.GPU_PARTS)})"
    return Policy(
        name="muster-kai-sharing",
        purpose="Without KAI's GPU sharing no pod with a part of a GPU starts.",
        # Of a batch Job with any GPU the pods get no gate (work.py).
        kinds=kinds_of(each for each in WORK if each.is_ray),
        unless=(("the-system", SYSTEM),),
        words=words,
        rules=(
            Rule(
                holds=f"!variables.templates.exists(each, {asks}) || "
                f"variables.templatesBefore.exists(each, {asks})",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + ' would never run: "
                f"its pods ask for parts of GPUs ({', '.join(names.GPU_PARTS)}), and muster:kai.gpuSharing "
                "is off in this stack; ask for whole GPUs (nvidia.com/gpu), or have gpuSharing switched on'",
            ),
        ),
    )


def kai_waiting() -> Policy:
    """Warnings: such a job runs, but not as its author means it."""
    deadlines = f"{quoted(_DEADLINES)}.filter(key, key in object.spec)"
    # KAI's grouper takes a minimum of 0 for the replicas (plugins/ray/ray_grouper.go of 0.12.0).
    fewer = (
        "variables.cluster.?workerGroupSpecs.orValue([]).filter(group, "
        "group.?minReplicas.orValue(0) > 0 && group.minReplicas < group.?replicas.orValue(0))"
        ".map(group, group.?groupName.orValue(''))"
    )
    return Policy(
        name="muster-kai-waiting",
        purpose="What waits behind the gate exists already, unlike work that Kueue suspends. A warning.",
        kinds=(
            Kinds(
                group="ray.io", resources=("rayjobs", "rayclusters", "rayservices"), operations=("CREATE",)
            ),
        ),
        unless=(("made-for-work", MADE_FOR_WORK), ("made-by-the-system", SYSTEM)),
        words=(
            pod_templates.cluster_word("", "object"),
            ("deadlines", f"request.resource.resource == 'rayjobs' ? {deadlines} : []"),
            ("fewer", fewer),
        ),
        rules=(
            Rule(
                holds="variables.deadlines.size() == 0",
                message="variables.deadlines.join(' and ') + ' of RayJob ' + object.metadata.name + ' counts "
                "while its gang waits for capacity, and may end it before its first pod; remove it, or add "
                "the longest wait to it'",
            ),
            Rule(
                holds="variables.fewer.size() == 0",
                message="object.kind + ' ' + object.metadata.name + ' may start with minReplicas of ' + "
                "variables.fewer.join(', ') + ', which are below its replicas; set both to the same number "
                "for a gang that starts whole'",
            ),
        ),
    )
