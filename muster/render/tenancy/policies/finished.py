"""Work that has finished, or a RayJob that is deleted, gives back its nodes with its quota.

Kueue takes the quota of a RayJob back when the job has finished (rayjob_controller.go of 0.19.2, Finished).
KubeRay deletes its cluster afterwards: after `ttlSecondsAfterFinished`, in part, or never, as the RayJob asks
for. It ends a deleted one by the token of its cluster (1.6.2, rayjob_controller.go), and waits for a Secret
that its author has emptied. The cluster of a RayService that was not ready in time stays until
`rayClusterDeletionDelaySeconds` have passed, whatever its queue says (rayservice_controller.go). With KAI
every pod is counted for as long as it runs.
"""

from typing import Final

from muster.model.stack import Stack
from muster.model.work import BY_KIND, WORK
from muster.render.tenancy.policies.pod_templates import BEFORE, optional
from muster.render.tenancy.policies.policy import Policy, Rule, kinds_of
from muster.render.tenancy.policies.work import UNLESS

# Their controllers leave all pods by default, those that run as well: MPIJob's workers do for ever.
_CLEANED: Final = tuple(each for each in WORK if each.cleaning)
# KubeRay deletes no cluster that existed before the job.
_HAS_CLUSTER: Final = "{of}.spec.?clusterSelector.orValue(dyn({{}})).size() == 0"


def finished(stack: Stack) -> Policy:
    """An object that was allowed once stays changeable: only what it did not have before is refused."""
    most = stack.tenancy.termination_grace
    return Policy(
        name="muster-finished",
        purpose=(
            "Kueue takes back the quota of a job when it has finished. Its pods must give back their nodes "
            "with it."
        ),
        kinds=kinds_of((BY_KIND["RayJob"], BY_KIND["RayService"], *_CLEANED)),
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
                message="'a finished ' + object.kind + ' gives back its quota, but its ' + "
                "(request.resource.group == 'ray.io' ? 'cluster' : 'pods') + ' would keep the nodes; ' + "
                "variables.new.join('; ')",
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
    delay = f"{of}.spec.?rayClusterDeletionDelaySeconds.orValue(0)"
    of_ray = (
        f"request.resource.resource == 'rayservices' ? ({delay} <= {most} ? [] : "
        f"['set spec.rayClusterDeletionDelaySeconds to {most} or less, not ' + string({delay})]) : "
        f"({_HAS_CLUSTER.format(of=of)} ? {' + '.join(found)} : [])"
    )
    return (
        "".join(
            f"request.resource.resource in {[each.resource for each in _CLEANED if each.cleaning == path]} ? "
            f"({optional(of, path)}.orValue('') in ['All', 'Running'] ? [] : ['set {path} to Running']) : "
            for path in dict.fromkeys(each.cleaning for each in _CLEANED)
        )
        + of_ray
    )
