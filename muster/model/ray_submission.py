"""How a queued RayJob may be submitted, so that its queue can stop it.

One rule on `submissionMode` for the policy, in CEL, at creation and at every change, and for the webhook, at
creation, also where no policy is in force. While an interactive job waits for its jobId, KubeRay 1.6.2
ignores `suspend` (ray-operator/controllers/ray/rayjob_controller.go, JobDeploymentStatusWaiting), so a
preemption would never end. Kueue 0.19.2 ignores the mode. A job in an existing cluster is not queued; that
cluster is.
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
# With the variable `before`. What is interactive already stays changeable.
IN_CEL: Final = (
    f"request.resource.resource != 'rayjobs' || !{_NEVER_STOPS.format(of='object')} || "
    f"{_NEVER_STOPS.format(of='variables.before')}"
)
