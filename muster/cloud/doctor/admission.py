"""Whether the AdmissionChecks of a cluster are active. Kueue stops each queue whose check is not."""

from collections.abc import Iterator
from typing import Final

from muster.cloud.doctor.findings import Finding, failed, passed
from muster.live.cluster.api import Api
from muster.live.fields import Json, mapping, text
from muster.live.web import WebError
from muster.live.why.queue_state import inactive_reason, is_active
from muster.model import names

_CHECK: Final = "admission checks"
_PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/admissionchecks"


def check_admission(api: Api) -> Iterator[Finding]:
    """One finding for each check that is inactive. Before the first `up` there are none."""
    try:
        checks: list[Json] = api.list_all(_PATH, mapping)
    except WebError as error:
        if error.status != 404:
            raise
        return
    inactive = [each for each in checks if not is_active(each)]
    for each in inactive:
        yield _inactive(each)
    if checks and not inactive:
        active = ", ".join(sorted(text(each, "metadata", "name") for each in checks))
        yield passed(_CHECK, f"active: {active}")


def _inactive(check: Json) -> Finding:
    name, controller = text(check, "metadata", "name"), text(check, "spec", "controllerName")
    silent = f"its controller {controller} has not answered for it"
    reason = inactive_reason(check) or silent
    program = f"kubectl get pods -n {names.SYSTEM_NAMESPACE}"
    ours = f" && {program}" if controller == names.CONTROLLER_NAME else ""
    return failed(
        _CHECK,
        f"AdmissionCheck {name} is inactive, so its queues start no job: {reason}",
        f"kubectl describe admissionchecks {name}{ours}",
    )
