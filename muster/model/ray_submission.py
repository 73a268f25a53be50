"""How a queued RayJob may be submitted, so that its queue can start and stop it.

Two rules for the policies, in CEL, at creation and at every change.

`submissionMode`: while an interactive job waits for its jobId, KubeRay 1.6.2 ignores `suspend`
(ray-operator/controllers/ray/rayjob_controller.go, JobDeploymentStatusWaiting), so a preemption would never
end. Kueue 0.19.2 ignores the mode.

`clusterSelector`: Kueue 0.19.2 suspends every RayJob of a queue when it is created, and then leaves those in
an existing cluster alone (pkg/controller/jobs/rayjob, Default and Skip). KubeRay 1.6.2 fails a suspended one
as invalid (ray-operator/controllers/ray/utils/validation.go, ValidateRayJobSpec). So it never runs. With KAI
nothing suspends it, and the cluster that it names has been queued.
"""

from typing import Final

INTERACTIVE: Final = "InteractiveMode"

MESSAGE: Final = (
    f"submissionMode {INTERACTIVE} cannot be suspended, so it can neither queue nor be preempted; "
    "use HTTPMode, or K8sJobMode where Kueue is the scheduler"
)
_NEVER_STOPS: Final = (
    f"({{of}}.spec.?submissionMode.orValue('') == '{INTERACTIVE}' && "
    "{of}.spec.?clusterSelector.orValue(dyn({{}})).size() == 0)"
)
SELECTOR_MESSAGE: Final = (
    "a RayJob in an existing cluster (spec.clusterSelector) never starts here: its queue suspends it, and "
    "KubeRay fails a suspended one as invalid; write spec.rayClusterSpec, or submit to the RayCluster, which "
    "is queued itself, with `ray job submit` in the pod of its head"
)
_SELECTS: Final = "{of}.spec.?clusterSelector.orValue(dyn({{}})).size() > 0"
# With the variable `before`. What selects a cluster already stays changeable.
SELECTOR_IN_CEL: Final = (
    f"request.resource.resource != 'rayjobs' || !({_SELECTS.format(of='object')}) || "
    f"{_SELECTS.format(of='variables.before')}"
)
# With the variable `before`. What is interactive already stays changeable.
IN_CEL: Final = (
    f"request.resource.resource != 'rayjobs' || !{_NEVER_STOPS.format(of='object')} || "
    f"{_NEVER_STOPS.format(of='variables.before')}"
)
