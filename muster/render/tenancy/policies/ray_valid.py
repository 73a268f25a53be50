"""Ray objects that KubeRay takes for valid, when they are created and for as long as they exist.

KubeRay validates an object before it does anything with it. What became invalid it neither suspends nor
deletes: a preemption would give quota to others while the pods run on, and a finalizer would keep them after
a deletion. So the API server judges all that KubeRay judges and that no other policy or definition does, and
what makes a RayCluster fail before KubeRay comes to its pods. Source:
https://github.com/ray-project/kuberay at v1.6.2, ray-operator/controllers/ray/utils/validation.go, read
2026-11-27, and raycluster_controller.go beside utils, read 2026-11-29. A test compares both with these files.

What CEL cannot read, the runtime environment, stays as it was created. KAI evicts pods by itself.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.pod_templates import BEFORE, CLUSTER_PATH, cluster_word
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, fault, joined, no_faults, quoted
from muster.render.tenancy.policies.work import UNLESS

_FT_ANNOTATION: Final = "ray.io/ft-enabled"
_STORAGE_ANNOTATION: Final = "ray.io/external-storage-namespace"
_TIMEOUT_ANNOTATION: Final = "ray.io/initializing-timeout"
_SERVE_ANNOTATION: Final = "ray.io/enable-serve-service"
_ORIGIN_LABEL: Final = names.KUBERAY_ORIGIN_LABEL
_V2_VARIABLE: Final = "RAY_enable_autoscaler_v2"
# Of a group, what rayStartParams and resources both say.
_AMOUNTS: Final = ("num-cpus", "num-gpus", "memory", "resources")
_JOB, _SERVICE = (f"request.resource.resource == '{name}'" for name in ("rayjobs", "rayservices"))

# A label of Kubernetes: the name and the value, and the subdomain before a slash.
_NAME: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = f"^({_DOMAIN}([.]{_DOMAIN})*/)?{_NAME}$"
_LONGEST_DOMAIN: Final = 253
# Narrower than KubeRay's parsers, whose numbers overflow: such as 2.54.1, and hours, minutes and seconds.
_VERSION: Final = "^[1-9][0-9]{0,3}([.][0-9]{1,6}){1,3}([.]?[-+a-zA-Z].*)?$"
_AMOUNT: Final = "[0-9]{1,5}([.][0-9]{1,3})?"
_DURATION: Final = f"^(({_AMOUNT}h)?({_AMOUNT}m)?({_AMOUNT}s)?|[0-9]{{1,9}})$"
_NOT_ZERO: Final = "[1-9]"


def ray_valid() -> Policy:
    words = [("clusterPath", CLUSTER_PATH), BEFORE]
    for when, of in (("Before", "variables.before"), ("", "object")):
        words += _words(when, of)
    return Policy(
        name="muster-ray-valid",
        purpose=(
            "KubeRay neither suspends nor deletes what is invalid: its pods would run on after their quota "
            "was given to others."
        ),
        kinds=(Kinds(group="ray.io", resources=("rayjobs", "rayclusters", "rayservices")),),
        unless=UNLESS,
        words=(
            *words,
            (
                "new",
                "variables.faults.map(some, some.filter(fault, "
                "!variables.faultsBefore.exists(others, fault in others)))",
            ),
            ("unstopped", _unstopped()),
        ),
        rules=(
            Rule(
                holds=no_faults("variables.new"),
                message="'KubeRay would take ' + object.kind + ' ' + object.metadata.name + ' for invalid, "
                f"and neither start nor stop it; ' + {joined('variables.new')}",
            ),
            _runtime_environment(),
            _stops(),
        ),
    )


def _runtime_environment() -> Rule:
    same = "object.spec.?runtimeEnvYAML.orValue('') == oldObject.spec.?runtimeEnvYAML.orValue('')"
    return Rule(
        holds=f"request.operation != 'UPDATE' || !({_JOB}) || {same}",
        message="'KubeRay would not stop RayJob ' + object.metadata.name + ' with a runtime environment that "
        "it cannot read; leave spec.runtimeEnvYAML as it is, and create a new RayJob with another one'",
    )


def _stops() -> Rule:
    """KubeRay stops the pods of a RayCluster after it has made what else belongs to it: with an error before
    that it stops none. Without fault tolerance it leaves its finalizer where it put it (1.6.2,
    raycluster_controller.go).
    """
    return Rule(
        holds="variables.unstopped.size() == 0",
        message="'KubeRay would not stop RayCluster ' + object.metadata.name + ' any more; ' + "
        "variables.unstopped.join('; ') + ', or create another RayCluster'",
    )


def _unstopped() -> str:
    """What an update of a RayCluster has to leave, as a CEL list of sentences."""
    kept = (
        (
            "variables.scales && variables.account != variables.accountBefore",
            "serviceAccountName of the head",
        ),
        (
            "variables.isTolerantBefore && !variables.isTolerant",
            f"gcsFaultToleranceOptions, or annotation {_FT_ANNOTATION},",
        ),
        ("variables.serves && !variables.servesBefore", f"annotation {_SERVE_ANNOTATION}"),
        ("variables.needsToken && !variables.needsTokenBefore", "authOptions"),
    )
    faults = " + ".join(fault(condition, f"'leave {what} as before'") for condition, what in kept)
    return f"oldObject == null || request.resource.resource != 'rayclusters' ? [] : {faults}"


def _words(when: str, of: str) -> list[tuple[str, str]]:
    """The variables of an object, in its new or old state. `faults` are the fixes, lists of CEL strings."""
    cluster = f"variables.cluster{when}"
    containers = f"{cluster}.?headGroupSpec.?template.?spec.?containers.orValue([])"
    parts = (
        f"({cluster}.?headGroupSpec.hasValue() ? [{{'path': dyn(variables.clusterPath + '.headGroupSpec'), "
        f"'group': dyn({cluster}.headGroupSpec)}}] : []) + "
        f"{cluster}.?workerGroupSpecs.orValue([]).map(group, {{'path': dyn(variables.clusterPath + "
        "'.workerGroupSpecs of ' + group.?groupName.orValue('')), 'group': dyn(group)})"
    )
    # One word a part: CEL parses no deep expression.
    found = {
        f"groupFaults{when}": _of_groups(when),
        f"clusterFaults{when}": f"[{' + '.join(_of_cluster(when))}]",
        f"jobFaults{when}": f"[{_JOB} ? {' + '.join(_of_job(of))} : []]",
        f"serviceFaults{when}": f"[{_SERVICE} ? {' + '.join(_of_service(when, of))} : []]",
    }
    faults = " + ".join(f"variables.{word}" for word in found)
    return [
        cluster_word(when, of),
        (f"notes{when}", f"{of}.metadata.?annotations.orValue(dyn({{}}))"),
        (f"origin{when}", f"{of}.metadata.?labels[?'{_ORIGIN_LABEL}'].orValue('')"),
        (f"parts{when}", parts),
        (f"scales{when}", f"{cluster}.?enableInTreeAutoscaling.orValue(false)"),
        (f"isV2{when}", f"{cluster}.?autoscalerOptions.?version.orValue('') == 'v2'"),
        (
            f"account{when}",
            f"{cluster}.?headGroupSpec.?template.?spec.?serviceAccountName.orValue('')",
        ),
        (
            f"isTolerant{when}",
            f"{cluster}.?gcsFaultToleranceOptions.hasValue() || "
            f"variables.notes{when}[?'{_FT_ANNOTATION}'].orValue('').lowerAscii() == 'true'",
        ),
        (f"serves{when}", f"variables.notes{when}[?'{_SERVE_ANNOTATION}'].orValue('') == 'true'"),
        (
            f"needsToken{when}",
            f"{cluster}.?authOptions.?mode.orValue('') == 'token' && "
            f"{cluster}.?authOptions.?secretName.orValue('') == '' && "
            f"!{cluster}.?authOptions.?enableK8sTokenAuth.orValue(false)",
        ),
        # Of the first container, as KubeRay looks.
        (f"env{when}", f"{containers}.size() == 0 ? [] : {containers}[0].?env.orValue([])"),
        *found.items(),
        (f"faults{when}", f"oldObject == null ? [] : {faults}" if when else faults),
    ]


def _has_variable(when: str, name: str, *values: str) -> str:
    holds = f" && each.?value.orValue('') in {quoted(values)}" if values else ""
    return f"variables.env{when}.exists(each, each.name == '{name}'{holds})"


def _of_groups(when: str) -> str:
    """Of the head and of the workers. A worker's numbers are in ray.py."""
    params, labels = (f"part.group.?{field}.orValue(dyn({{}}))" for field in ("rayStartParams", "labels"))
    idles = "part.group.?idleTimeoutSeconds"
    scaled = f"variables.isV2{when} || {_has_variable(when, _V2_VARIABLE, '1', 'true')}"
    restarts = "!(part.group.?template.?spec.?restartPolicy.orValue('') in ['', 'Never'])"
    found = (
        (
            "part.group.?template.?spec.?containers.orValue([]).size() == 0",
            "'add a container to ' + part.path",
        ),
        (
            f"{quoted(_AMOUNTS)}.exists(name, {params}[?name].orValue('') != '') && "
            "part.group.?resources.orValue(dyn({})).size() > 0",
            f"'remove resources, or {', '.join(_AMOUNTS)} of rayStartParams, from ' + part.path",
        ),
        (f"'labels' in {params}", "'write labels of rayStartParams into labels of ' + part.path"),
        (
            f"!{labels}.all(key, key.matches('{_KEY}') && key.split('/')[0].size() <= {_LONGEST_DOMAIN} && "
            f"({labels}[key] == '' || {labels}[key].matches('^{_NAME}$')))",
            "'write labels that Kubernetes takes in labels of ' + part.path",
        ),
        (
            f"{idles}.hasValue() && ({idles}.value() < 0 || !({scaled}))",
            "'remove idleTimeoutSeconds from ' + part.path + ', or set it to 0 or more and "
            "autoscalerOptions.version to v2'",
        ),
        (
            f"variables.scales{when} && part.group.?suspend.orValue(false)",
            "'remove suspend from ' + part.path",
        ),
        (
            f"variables.scales{when} && variables.isV2{when} && {restarts}",
            "'set restartPolicy to Never in ' + part.path",
        ),
    )
    return f"variables.parts{when}.map(part, {' + '.join(fault(condition, fix) for condition, fix in found)})"


def _of_cluster(when: str) -> list[str]:
    cluster, notes = f"variables.cluster{when}", f"variables.notes{when}"
    gcs = f"{cluster}.?gcsFaultToleranceOptions.hasValue()"
    params = f"{cluster}.?headGroupSpec.?rayStartParams.orValue(dyn({{}}))"
    text = f"{cluster}.?rayVersion.orValue('')"
    redis = ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD")
    token = f"{cluster}.?authOptions.?mode.orValue('') == 'token'"
    by_kubernetes = f"{cluster}.?authOptions.?enableK8sTokenAuth.orValue(false)"
    least = {token: "2.52", by_kubernetes: "2.55"}
    found = [
        (
            f"{notes}[?'{_FT_ANNOTATION}'].orValue('') != '' && {gcs}",
            f"'remove annotation {_FT_ANNOTATION} or gcsFaultToleranceOptions'",
        ),
        (
            f"{notes}[?'{_STORAGE_ANNOTATION}'].orValue('') != '' && {gcs}",
            f"'write annotation {_STORAGE_ANNOTATION} into "
            "gcsFaultToleranceOptions.externalStorageNamespace'",
        ),
        (
            f"!{gcs} && {notes}[?'{_FT_ANNOTATION}'].orValue('').lowerAscii() != 'true' && "
            f"{_has_variable(when, redis[0])}",
            f"'write {redis[0]} into gcsFaultToleranceOptions.redisAddress'",
        ),
        (
            f"{gcs} && ({' || '.join(_has_variable(when, name) for name in redis)} || "
            f"{params}[?'redis-password'].orValue('') != '')",
            f"'remove {' and '.join(redis)} from the head, and redis-password from its rayStartParams: write "
            "gcsFaultToleranceOptions.redisAddress and redisPassword'",
        ),
        (
            f"{_has_variable(when, 'REDIS_USERNAME')} || {params}[?'redis-username'].orValue('') != ''",
            "'write the user of Redis into gcsFaultToleranceOptions.redisUsername, not into the head'",
        ),
        (
            f"!variables.scales{when} && {_has_variable(when, _V2_VARIABLE, '1', 'true')}",
            f"'remove {_V2_VARIABLE} from the head: the cluster has no autoscaler'",
        ),
        (
            f"variables.scales{when} && {cluster}.?autoscalerOptions.?version.hasValue() && "
            f"{_has_variable(when, _V2_VARIABLE)}",
            f"'remove {_V2_VARIABLE} from the head: autoscalerOptions.version says it'",
        ),
        (
            f"{cluster}.?autoscalerOptions.?idleTimeoutSeconds.orValue(0) < 0",
            "'set autoscalerOptions.idleTimeoutSeconds to 0 or more'",
        ),
        *(
            (f"{condition} && !({_at_least(text, version)})", f"'set rayVersion to {version}.0 or newer'")
            for condition, version in least.items()
        ),
        (
            f"{by_kubernetes} && (!({token}) || {cluster}.?authOptions.?secretName.orValue('') != '' || "
            f"{_JOB} || {_SERVICE})",
            "'remove authOptions.enableK8sTokenAuth, which only a RayCluster of its own may have'",
        ),
        (
            f"variables.origin{when} in ['RayJob', 'RayService'] && "
            f"{cluster}.?upgradeStrategy.?type.hasValue()",
            f"'remove label {_ORIGIN_LABEL}, which KubeRay writes'",
        ),
    ]
    return [fault(condition, fix) for condition, fix in found]


def _at_least(text: str, version: str) -> str:
    least = version.split(".")
    major, minor = (f"int({text}.split('.')[{index}].find('[0-9]+'))" for index in (0, 1))
    return (
        f"{text}.matches('{_VERSION}') && "
        f"({major} > {least[0]} || ({major} == {least[0]} && {minor} >= {least[1]}))"
    )


def _of_job(of: str) -> list[str]:
    """Its suspension, deletion and cluster are in finished.py and in the rules of work and ray."""
    head = f"{of}.spec.?rayClusterSpec.?headGroupSpec.?template.?spec.?restartPolicy.orValue('')"
    found = [
        (
            f"!{of}.spec.?rayClusterSpec.hasValue() && "
            f"{of}.spec.?clusterSelector.orValue(dyn({{}})).size() == 0",
            "'write spec.rayClusterSpec'",
        ),
        (f"{of}.spec.?backoffLimit.orValue(0) < 0", "'set spec.backoffLimit to 0 or more'"),
        (
            f"{of}.spec.?ttlSecondsAfterFinished.orValue(0) < 0",
            "'set spec.ttlSecondsAfterFinished to 0 or more'",
        ),
        (
            f"{of}.spec.?activeDeadlineSeconds.orValue(1) <= 0",
            "'set spec.activeDeadlineSeconds to 1 or more'",
        ),
        (
            f"{of}.spec.?submissionMode.orValue('') == 'SidecarMode' && "
            f"({of}.spec.?submitterPodTemplate.hasValue() || {of}.spec.?submitterConfig.hasValue())",
            "'remove spec.submitterPodTemplate and spec.submitterConfig, which SidecarMode does not have'",
        ),
        (
            f"{of}.spec.?submissionMode.orValue('') == 'SidecarMode' && !({head} in ['', 'Never'])",
            "'set restartPolicy of the head to Never, as SidecarMode needs it'",
        ),
    ]
    return [fault(condition, fix) for condition, fix in found]


def _of_service(when: str, of: str) -> list[str]:
    timeout = f"variables.notes{when}[?'{_TIMEOUT_ANNOTATION}'].orValue('')"
    found = [
        (
            f"variables.cluster{when}.?headGroupSpec.?headService.?metadata.?name.orValue('') != ''",
            "'remove spec.rayClusterConfig.headGroupSpec.headService.metadata.name'",
        ),
        (
            f"{timeout} != '' && !({timeout}.matches('{_DURATION}') && {timeout}.matches('{_NOT_ZERO}'))",
            f"'write annotation {_TIMEOUT_ANNOTATION} as 30m or as seconds'",
        ),
    ]
    return [fault(condition, fix) for condition, fix in found]
