"""A RayJob that has finished, or is deleted, gives back its nodes with its quota.

Kueue takes the quota of a RayJob back when the job has finished (rayjob_controller.go of 0.19.2, Finished).
KubeRay deletes its cluster afterwards: after `ttlSecondsAfterFinished`, in part, or never, as the RayJob asks
for. It ends a deleted one by the token of its cluster (1.6.2, rayjob_controller.go), and waits for a Secret
that its author has emptied. With KAI every pod is counted for as long as it runs.
"""

from typing import Final

from muster.model.stack import Stack
from muster.render.tenancy.policies.pod_templates import BEFORE
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule
from muster.render.tenancy.policies.work import UNLESS

# KubeRay deletes no cluster that existed before the job.
_HAS_CLUSTER: Final = "{of}.spec.?clusterSelector.orValue(dyn({{}})).size() == 0"


def finished(stack: Stack) -> Policy:
    """An object that was allowed once stays changeable: only what it did not have before is refused."""
    most = stack.tenancy.termination_grace
    return Policy(
        name="muster-finished",
        purpose=(
            "Kueue takes back the quota of a RayJob when it has finished. Its cluster must give back "
            "its nodes with it."
        ),
        kinds=(Kinds(group="ray.io", resources=("rayjobs",)),),
        unless=UNLESS,
        words=(
            BEFORE,
            ("faults", _faults("object", most)),
            ("faultsBefore", f"oldObject == null ? [] : {_faults('variables.before', most)}"),
            ("new", "variables.faults.filter(fault, !(fault in variables.faultsBefore))"),
        ),
        rules=(
            Rule(
                holds="variables.new.size() == 0",
                message="'a finished RayJob gives back its quota, but its cluster would keep the nodes; '"
                " + variables.new.join('; ')",
            ),
        ),
    )


def _faults(of: str, most: int) -> str:
    """What an author has to change, as a CEL list of sentences."""
    kept = f"{of}.spec.?ttlSecondsAfterFinished.orValue(0)"
    found = (
        f"({of}.spec.?shutdownAfterJobFinishes.orValue(false) ? [] : "
        "['set spec.shutdownAfterJobFinishes: true'])",
        f"({kept} <= {most} ? [] : "
        f"['set spec.ttlSecondsAfterFinished to {most} or less, not ' + string({kept})])",
        f"({of}.spec.?deletionStrategy.hasValue() ? ['remove spec.deletionStrategy'] : [])",
        f"({of}.spec.?rayClusterSpec.?authOptions.?secretName.orValue('') == '' ? [] : "
        "['remove spec.rayClusterSpec.authOptions.secretName, and KubeRay makes a Secret'])",
    )
    return f"({_HAS_CLUSTER.format(of=of)} ? {' + '.join(found)} : [])"
