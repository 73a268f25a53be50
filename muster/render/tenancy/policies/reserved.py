"""Labels, annotations and names that belong to Muster, Kueue and KAI, in all that a tenant writes.

Controllers find their objects by them: a pod with another gang's label would be counted as one of its
placeholders, and one with another job's PodSet would be let start in place of a pod of that job. KAI copies
all that a Ray object has to its PodGroup, when it started included. What an object has already, it keeps
where it has it.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.work import BROUGHT, BY_KIND, WORK, by_group
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, TRUSTED, Kinds, Policy, Rule, quoted

_OURS: Final = f"{names.GROUP}/"
# Tenants choose a pool by it, and the webhook adds it to their work (KAI).
_FREE: Final = (names.POOL_LABEL,)
_KUEUE: Final = "kueue.x-k8s.io/"
# What Kueue 0.19.2 reads of a job as its author writes it (pkg/constants, pkg/controller/constants, the
# webhooks of pkg/controller/jobs and apis/kueue/v1beta2/topology_types.go). All others it writes itself. The
# label of a prebuilt Workload is refused in work.py.
_OF_KUEUE: Final = tuple(
    _KUEUE + name
    for name in (
        *("queue-name", "priority-class", "max-exec-time-seconds"),
        *("elastic-job", "job-min-parallelism", "job-completions-equal-parallelism"),
        *("podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology"),
        *("podset-slice-required-topology", "podset-slice-required-topology-constraints"),
        *("podset-slice-size", "podset-group-name", "pod-index-offset", "pod-group-pod-index-label"),
        *("admission-gated-by", "safe-to-forcefully-delete", "retriable-in-group"),
    )
)
# By which a pod is let start with a group or a Workload. Of what serves, Kueue writes them itself.
_OF_PODS_ALONE: Final = tuple(
    _KUEUE + name
    for name in (
        *("pod-group-name", "pod-group-total-count", "pod-group-fast-admission"),
        "prebuilt-workload-name",
    )
)
_SERVING: Final = tuple(each for each in WORK if each.serves)
# What Kueue's webhooks write into the pods of what serves before a policy sees it, whatever its author wrote
# (0.19.2, pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go and its like).
_NOTES: Final = (
    *((each, "pod-suspending-parent", each.framework) for each in _SERVING),
    (BY_KIND["LeaderWorkerSet"], "pod-group-serving", "true"),
    (BY_KIND["Deployment"], "managed", "true"),
)
_WRITTEN: Final = " || ".join(
    f"(request.resource.resource == '{kind.resource}' && key == '{_KUEUE}{note}' && "
    f"each.keys[key] == '{value}')"
    for kind, note, value in _NOTES
)
_NOT_READ: Final = (
    f"(key in {quoted(_OF_PODS_ALONE)} && !(request.resource.resource in "
    f"{quoted(['replicasets', *(each.resource for each in _SERVING)])}))"
)
# A ReplicaSet has these of its Deployment, in which they are judged.
_COPIED: Final = (
    f"(request.resource.resource == 'replicasets' && key in "
    f"{quoted([f'{_KUEUE}queue-name', f'{_KUEUE}priority-class'])})"
)
# Ray's autoscaler resizes pods in place where a cluster has it, and no queue counts that.
_RESIZE: Final = "ray.io/ippr"

_KAI: Final = "kai.scheduler/"
# What KAI reads of work as its author writes it. It also reads preemptibility, preemption-delay and
# staleness-grace-period there, which are the platform team's to decide. All else it writes itself, also under
# its former name. Source: https://github.com/kai-scheduler/KAI-Scheduler at v0.17.0,
# pkg/podgrouper/podgrouper/plugins/constants and pkg/common/constants, read 2026-11-27
_OF_KAI: Final = tuple(
    _KAI + name
    for name in (
        *("queue", "skip-podgrouper", "batch-min-member"),
        *("topology", "topology-required-placement", "topology-preferred-placement"),
        *("segment-size", "segment-topology-required-placement", "segment-topology-preferred-placement"),
    )
)
_KAI_WRITES: Final = (
    f"(key.startsWith('{_KAI}') && !(key in {quoted(_OF_KAI)})) || key.startsWith('runai/') || "
    "key.startsWith('runai-gpu-group') || key == 'received-resource-type'"
)

# Grafana's sidecar loads dashboards, data sources and alerts of every namespace by labels that begin so, into
# files by whose names one overwrites another. Source:
# https://grafana.github.io/grafana-operator/docs/examples/configmaps_sidecar/readme, read 2026-11-27
_GRAFANA: Final = "grafana_"
_LOADED: Final = "request.resource.resource in ['configmaps', 'secrets']"

# By which KubeRay finds the pods of a cluster and the Service of its head, whoever made them. With two heads,
# or two such Services, it fails before it stops a pod (1.6.2, raycluster_controller.go). To what it makes for
# a Ray object it gives these labels itself, but for the submitter and the Service of Serve.
_FOUND_BY: Final = quoted([f"ray.io/{name}" for name in ("cluster", "node-type", "group", "identifier")])
_FOUND_BY_KUBERAY: Final = (
    f"(key in {_FOUND_BY} && each.path.endsWith('labels') && (request.resource.group == 'ray.io' ? "
    "['submitterPodTemplate', 'serveService'].exists(part, each.path.contains(part)) : "
    "each.path != 'metadata.labels' || request.resource.resource == 'services' || "
    # What a controller made is in changes.py.
    "(request.resource.resource == 'pods' && !variables.before.metadata.?ownerReferences.orValue([]).exists("
    "owner, owner.?controller.orValue(false)))))"
)

# By which controllers that a cluster brings along find their pods.
_OF_PODS: Final = "".join(
    f"(key.startsWith('{each.prefix}') && !(key in {quoted([each.prefix + name for name in each.free])})) || "
    for each in BROUGHT
    if each.prefix
)
_WORK: Final = f"request.resource.group in {quoted(tuple(by_group(WORK)))}"
_KEPT_BY_KUEUE: Final = (
    f"key.startsWith('{_KUEUE}') && !(key in {quoted(_OF_KUEUE)} && !{_COPIED} || {_NOT_READ} || {_WRITTEN})"
)
_RESERVED: Final = (
    f"{_OF_PODS}(key.startsWith('{_OURS}') && !(key in {quoted(_FREE)})) || ({_WORK} && "
    f"(({_KEPT_BY_KUEUE}) || key == '{_RESIZE}')) || "
    f"({_LOADED} && key.startsWith('{_GRAFANA}')) || {_FOUND_BY_KUBERAY}{{kai}}"
)


def reserved(stack: Stack) -> Policy:
    is_kai = stack.scheduler is Scheduler.KAI
    words = [pod_templates.JOB_PATH, ("clusterPath", pod_templates.CLUSTER_PATH), pod_templates.BEFORE]
    for when, of in (("", "object"), ("Before", "variables.before")):
        words += [*pod_templates.words(when, of), (f"keyed{when}", _keyed(when, of))]
    return Policy(
        name="muster-reserved",
        purpose=(
            "Controllers find their objects by labels, annotations and names. Those of Muster, Kueue "
            "and KAI are not for tenants to write."
        ),
        kinds=(
            *pod_templates.makers_of_pods(stack),
            Kinds(group="", resources=("pods", "configmaps", "secrets", "services", "serviceaccounts")),
        ),
        unless=(*TRUSTED, ("made-for-work", MADE_FOR_WORK)),
        words=(*words, ("taken", _taken(_RESERVED.format(kai=f" || {_KAI_WRITES}" if is_kai else "")))),
        rules=(_keys(is_kai=is_kai), _name()),
    )


def _keyed(when: str, of: str) -> str:
    """Every set of labels and annotations in an object, with its path. KubeRay gives the labels of a group to
    its pods.
    """
    cluster, found = f"variables.cluster{when}", list[str]()
    for field in ("labels", "annotations"):
        found += [
            _set(f"{of}.metadata.?{field}", f"'metadata.{field}'"),
            # A CronJob's jobs have labels of their own; of other kinds the job is the object again.
            "(variables.jobPath == '' ? [] : "
            + _set(f"variables.job{when}.?metadata.?{field}", f"variables.jobPath + 'metadata.{field}'")
            + ")",
            _sets(
                f"variables.parts{when}", f"template.?metadata.?{field}", f"each.path + '.metadata.{field}'"
            ),
        ]
    groups = f"{cluster}.?workerGroupSpecs.orValue([])"
    found += [
        _set(f"{cluster}.?headGroupSpec.?labels", "variables.clusterPath + '.headGroupSpec.labels'"),
        _sets(groups, "?labels", "variables.clusterPath + '.workerGroupSpecs[].labels'"),
        _set(f"dyn({of}).?spec.?serveService.?metadata.?labels", "'spec.serveService.metadata.labels'"),
    ]
    return " + ".join(found)


def _set(of: str, path: str) -> str:
    """A CEL list of one set where there is one."""
    return f"({of}.hasValue() ? [{{'path': dyn({path}), 'keys': dyn({of}.value())}}] : [])"


def _sets(of: str, field: str, path: str) -> str:
    return (
        f"{of}.filter(each, each.{field}.hasValue())"
        f".map(each, {{'path': dyn({path}), 'keys': dyn(each.{field}.value())}})"
    )


def _taken(is_reserved: str) -> str:
    """The keys that an author has to remove, set by set."""
    kept = (
        "variables.keyedBefore.exists(before, before.path == each.path && key in before.keys && "
        "before.keys[key] == each.keys[key])"
    )
    return (
        f"variables.keyed.map(each, each.keys.filter(key, ({is_reserved}) && !{kept})"
        ".map(key, key + ' from ' + each.path)).filter(keys, keys.size() > 0)"
    )


def _keys(*, is_kai: bool) -> Rule:
    of_kai = f", and of {_KAI} {', '.join(key.removeprefix(_KAI) for key in _OF_KAI)}" if is_kai else ""
    return Rule(
        holds="variables.taken.size() == 0",
        message="object.kind + ' ' + object.metadata.name + ' has labels or annotations that are reserved "
        "for controllers; remove ' + variables.taken[0].join(', ') + "
        f"'. Of {_OURS} a tenant sets only {_FREE[0]}{of_kai}'",
    )


def _name() -> Rule:
    return Rule(
        holds=f"request.operation != 'CREATE' || !object.metadata.name.startsWith('{names.OWN_PREFIX}')",
        message=f"'names that begin with {names.OWN_PREFIX} are reserved for Muster; choose another "
        "metadata.name for ' + object.kind + ' ' + object.metadata.name",
    )
