"""The account of a Ray cluster's autoscaler: it changes the numbers of workers of its own cluster.

KubeRay makes the account of each elastic cluster, mounts its token into the head's pod, and gives it `patch`
on every RayCluster of the namespace. Ray's autoscaler (2.54) patches `replicas` and
`scaleStrategy.workersToDelete` of its groups and nothing else. Without this policy, any code in a head's pod
could change the images, commands and queues of the team's other clusters.
"""

from typing import Final

from muster.model.work import RAY
from muster.render.tenancy.policies.policy import Policy, Rule, kinds_of, quoted, same_metadata

# An account of the namespace that may change Ray clusters and may not create any. Members may do both.
IS_SCALER: Final = (
    "('system:serviceaccounts:' + request.namespace) in request.userInfo.groups && "
    "!authorizer.group('ray.io').resource('rayclusters').namespace(request.namespace).check('create').allowed()"
)
_ACCOUNT: Final = "request.userInfo.username.split(':')[3]"
# KubeRay's, of the names that it gives (CheckName).
_LONGEST: Final = 50
_OWN: Final = ("workerGroupSpecs", ("replicas", "scaleStrategy"))


def scalers() -> Policy:
    return Policy(
        name="muster-autoscalers",
        purpose=(
            "KubeRay gives the account of a Ray cluster's autoscaler a right on every RayCluster of the"
            " namespace. It may scale only its own."
        ),
        kinds=kinds_of(RAY, operations=("UPDATE",)),
        unless=(("not-an-autoscaler", f"!({IS_SCALER})"),),
        words=(
            ("now", "dyn(object)"),
            ("before", "dyn(oldObject)"),
            ("groups", "variables.now.spec.?workerGroupSpecs.orValue([])"),
            ("groupsBefore", "variables.before.spec.?workerGroupSpecs.orValue([])"),
            ("account", _ACCOUNT),
            (
                "named",
                "[variables.before.spec.?headGroupSpec.?template.?spec.?serviceAccountName.orValue(''), "
                "variables.before.metadata.name].filter(name, name != '')[0]",
            ),
            (
                "cut",
                f"variables.named.size() <= {_LONGEST} ? variables.named : "
                f"variables.named.substring(variables.named.size() - {_LONGEST})",
            ),
        ),
        rules=(_its_cluster(), _numbers()),
    )


def _its_cluster() -> Rule:
    """KubeRay cuts a long name from its front, and replaces a first character that is no letter."""
    return Rule(
        holds="request.resource.resource == 'rayclusters' && variables.account == "
        "(variables.cut.matches('^[a-z]') ? variables.cut : 'r' + variables.cut.substring(1))",
        message="'account ' + variables.account + ' may scale only the Ray cluster that it was created for; "
        "act as a member of the team'",
    )


def _numbers() -> Rule:
    field, numbers = _OWN
    groups = (
        "variables.groups.size() == variables.groupsBefore.size() && variables.groups.all(group, "
        "variables.groupsBefore.exists(old, old.groupName == group.groupName && "
        f"{_same('group', 'old', numbers)}))"
    )
    metadata = same_metadata("variables.now", "variables.before")
    return Rule(
        holds=f"{_same('variables.now.spec', 'variables.before.spec', (field,))} && {groups} && {metadata}",
        message="'account ' + variables.account + ' may change only replicas and scaleStrategy of worker "
        "groups; act as a member of the team'",
    )


def _same(now: str, before: str, but: tuple[str, ...]) -> str:
    """Both have the same values, but for some keys."""
    one = "{a}.all(key, key in {but} || (key in {b} && {a}[key] == {b}[key]))"
    listed = quoted(but)
    return f"{one.format(a=now, b=before, but=listed)} && {one.format(a=before, b=now, but=listed)}"
