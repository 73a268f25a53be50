"""Elastic work: its new pods wait behind Kueue's gate, and Kueue counts again only how many there are.

Kueue (0.19.2) puts the gate into the pod templates when the work is created, and lifts it from as many pods
as the newest admitted slice has. For one that is changed it compares the groups and their numbers of pods
(pkg/workloadslicing), also while the work waits for its first quota: what else the templates hold is what it
read at creation. So members change the numbers, and leave the gate, the resources and the node selectors. It
knows a group by its name in lower case, and the pods of a group by the PodSet in their label.
"""

from collections.abc import Sequence
from typing import Final

from muster.model import names
from muster.render.tenancy.policies.policy import Rule

IS_ELASTIC: Final = f"oldObject.metadata.?annotations[?'{names.ELASTIC_JOB}'].orValue('') == 'true'"
_STAYS: Final = f"object.metadata.?annotations[?'{names.ELASTIC_JOB}'].orValue('') == 'true'"
# The gate has the name of the annotation (ElasticJobSchedulingGate).
_GATE: Final = names.ELASTIC_JOB
_WHO: Final = "object.kind + ' ' + object.metadata.name + ' is elastic, and "
_NUMBERS: Final = (
    "(request.resource.resource == 'jobs' ? 'spec.parallelism' : 'replicas') + ' alone, as kubectl patch and "
    "kubectl edit do: kubectl apply removes what Kueue has added"
)
_GROUP_NAMES: Final = (
    "variables.cluster{}.?workerGroupSpecs.orValue([]).map(group, group.?groupName.orValue(''))"
)
_OF_POD: Final = (
    "[dyn({of}.template.?spec.?resources.orValue(dyn({{}}))), "
    "dyn({of}.template.?spec.?resourceClaims.orValue([]))]"
)
_COUNTED: Final = "its queue counts again only how many pods it has"


def words() -> Sequence[tuple[str, str]]:
    """They need those of `pod_templates.words` for both states. `resized`, `ungated` and `moved` are paths of
    templates, `unequal` too, which ask for something else for the pod as a whole.
    """
    return (
        ("sizes", _sizes("")),
        ("sizesBefore", _sizes("Before")),
        ("resized", _changed("{of}.amounts", parts="sizes")),
        (
            "ungated",
            "variables.partsBefore.exists(old, " + gated("old.template") + ") ? variables.parts.filter(each, "
            f"!({gated('each.template')}) && !variables.partsBefore.exists(old, old.path == each.path && "
            f"!({gated('old.template')}))).map(each, each.path) : []",
        ),
        ("moved", _changed("{of}.template.?spec.?nodeSelector.orValue(dyn({{}}))")),
        ("unequal", _changed(_OF_POD)),
        (
            "relabelled",
            _changed("{of}.template.?metadata.?labels[?'" + names.POD_SET_LABEL + "'].orValue('')"),
        ),
        (
            "renamed",
            f"{_GROUP_NAMES.format('')}.filter(name, {_GROUP_NAMES.format('Before')}.exists(old, "
            "old != name && old.lowerAscii() == name.lowerAscii()))",
        ),
    )


def _changed(value: str, *, parts: str = "parts") -> str:
    """The paths of templates that have another `value` than before. It holds `{of}`, one of the templates."""
    return (
        f"variables.{parts}.filter(each, variables.{parts}Before.exists(old, old.path == each.path && "
        f"{value.format(of='old')} != {value.format(of='each')})).map(each, each.path)"
    )


def gated(template: str) -> str:
    """Whether the pods of a template wait until Kueue has counted them."""
    return f"{template}.?spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{_GATE}')"


def _sizes(when: str) -> str:
    """What a pod of each template asks for, and the autoscaler that KubeRay adds to a head. One that is
    switched off is listed as nothing in the state before, so that switching it on is a difference.
    """
    cluster = f"variables.cluster{when}"
    templates = (
        f"variables.parts{when}.map(part, {{'path': dyn(part.path), 'amounts': dyn("
        f"{{'containers': {_amounts('containers')}, 'initContainers': {_amounts('initContainers')}}})}})"
    )
    amounts = f"dyn({cluster}.?autoscalerOptions.?resources.orValue(dyn({{}})))"
    path = "'path': dyn(variables.clusterPath + '.autoscalerOptions')"
    off = f"[{{{path}, 'amounts': dyn('none')}}]" if when else "[]"
    return (
        f"{templates} + (request.resource.group != 'ray.io' ? [] : "
        f"{cluster}.?enableInTreeAutoscaling.orValue(false) ? [{{{path}, 'amounts': {amounts}}}] : {off})"
    )


def _amounts(field: str) -> str:
    """An init container that is restarted runs beside the others and counts in addition to them."""
    return (
        f"part.template.?spec.?{field}.orValue([]).map(each, {{'resources': dyn(each.?resources.orValue("
        "dyn({}))), 'restarts': dyn(each.?restartPolicy.orValue(''))})"
    )


def rules() -> tuple[Rule, ...]:
    """What a change of elastic work leaves as it is."""
    return _remains(), _waits(), _resources(), _pod_resources(), _nodes(), _pod_sets(), _group_names()


def becomes() -> Rule:
    """What was created without the annotation has pods without a gate, also when it starts later."""
    return Rule(
        holds=f"variables.elastic || !({_STAYS})",
        message=f"'annotation {names.ELASTIC_JOB} takes effect only when ' + object.kind + ' ' + "
        "object.metadata.name + ' is created; remove it. For work that grows in steps, "
        "create a new Job or RayCluster with it'",
    )


def _remains() -> Rule:
    return Rule(
        holds=f"!variables.elastic || {_STAYS}",
        message=f"{_WHO}Kueue would no longer let its new pods start; keep annotation "
        f"{names.ELASTIC_JOB}. For work that is not elastic, create a new ' + object.kind + ' without it'",
    )


def _keeps(word: str, message: str) -> Rule:
    """Of elastic work these paths stay as they are. `message` goes on after who it is about."""
    return Rule(
        holds=f"!variables.elastic || variables.{word}.size() == 0",
        message=_WHO + message.format(paths=f"' + variables.{word}.join(', ')"),
    )


def _waits() -> Rule:
    return _keeps(
        "ungated",
        f"its new pods wait behind a gate until its queue has counted them; keep {_GATE} in schedulingGates "
        f"of {{paths}} + '. To grow it, change ' + {_NUMBERS}'",
    )


def _resources() -> Rule:
    return _keeps(
        "resized",
        f"{_COUNTED}; do not change the resources in {{paths}} + '. For larger or smaller pods, create a "
        f"new ' + "
        "object.kind",
    )


def _pod_resources() -> Rule:
    """Kueue (0.19.2, pkg/util/equality/podset.go) compares the containers and tolerations of work that is
    changed, and not what the pod as a whole asks for.
    """
    return Rule(
        holds="variables.unequal.size() == 0",
        message="'the queue of ' + object.kind + ' ' + object.metadata.name + ' would not recount what "
        "its pods request as a whole; do not change spec.resources and spec.resourceClaims in ' + "
        "variables.unequal.join(', ') + '. For other pods, create a new ' + object.kind",
    )


def _nodes() -> Rule:
    """Kueue adds the labels of the flavor whose quota the pods have."""
    return _keeps(
        "moved",
        f"{_COUNTED}, not on which nodes; do not change nodeSelector in {{paths}} + '. For other nodes, "
        f"create a new ' "
        "+ object.kind",
    )


def _pod_sets() -> Rule:
    """Kueue lets as many pods of each start as it has counted, by this label."""
    return _keeps(
        "relabelled",
        f"Kueue knows by label {names.POD_SET_LABEL} which pods it counted; leave it in {{paths}}",
    )


def _group_names() -> Rule:
    """For Kueue it would be the same group, and for the rules here another one."""
    return _keeps(
        "renamed",
        "its queue reads names of groups in lower case; write groupName as before in place of {paths}",
    )
