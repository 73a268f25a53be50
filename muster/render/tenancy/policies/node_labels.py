"""A warning for work that selects nodes by labels of a cloud or a vendor that no queue compares.

Kueue gives such work any pool: nodes are bought, and its pods wait for others. Labels that are known of the
pools are the webhooks' to judge (controller/kueue/limits.py). Never refuses: the nodes may have the label.
"""

from typing import Final

from muster.model import names
from muster.model.node_labels import compared_labels, flavor_labels
from muster.model.stack import Stack
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, SYSTEM, Policy, Rule, kinds_of, quoted

# What programs of a cloud or a vendor label nodes with, by how it begins.
_PREFIXES: Final = (
    "cloud.google.com/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "eks.amazonaws.com/",
    "k8s.amazonaws.com/",
    "nvidia.com/",
    "node.kubernetes.io/",
)


def node_labels(stack: Stack) -> Policy:
    listed = flavor_labels(stack).values()
    compared = compared_labels(stack)
    known = sorted({names.ZONE_LABEL, *(key for labels in listed for key in labels), *compared})
    foreign = [each for each in compared if each.endswith("/")]
    watched = " || ".join(f"key.startsWith('{each}')" for each in _PREFIXES if each not in foreign)
    # Who names the pool has chosen.
    free = (
        f"variables.templates.filter(each, !('{names.POOL_LABEL}' in "
        "each.?spec.?nodeSelector.orValue(dyn({}))))"
    )
    return Policy(
        name="muster-node-labels",
        purpose=(
            "Work that selects nodes by labels which no flavor has may get a pool without such nodes. A "
            "warning."
        ),
        kinds=kinds_of(stack.judged_work, operations=("CREATE",)),
        unless=(("made-for-work", MADE_FOR_WORK), ("made-by-the-system", SYSTEM)),
        words=(
            pod_templates.JOB_PATH,
            ("clusterPath", pod_templates.CLUSTER_PATH),
            *pod_templates.words("", "object"),
            (
                "unknown",
                f"{free}.map(each, each.?spec.?nodeSelector.orValue(dyn({{}})).filter(key, "
                f"!(key in {quoted(known)}) && ({watched}))).filter(keys, keys.size() > 0)"
                ".map(keys, keys.min() + (keys.size() > 1 ? ' and others' : ''))",
            ),
        ),
        rules=(
            Rule(
                holds="variables.unknown.size() == 0",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + ' selects nodes by "
                "' + variables.unknown.join(', ') + ', which no queue compares, so it may get a pool without "
                f"such nodes; select the pool by its name in nodeSelector: {names.POOL_LABEL}'",
            ),
        ),
    )
