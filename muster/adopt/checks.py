"""AdmissionChecks and ProvisioningRequestConfigs as `muster:kueue` has them."""

from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings
from muster.live.fields import items, mapping, text, texts
from muster.model import names
from muster.render.manifest import Manifest

_RETRY: Final = ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")


def to_checks(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> check. Kueue's own needs its configuration in the stack."""
    configs = {text(each, "metadata", "name") for each in live.of("ProvisioningRequestConfig")}
    found: dict[str, Any] = {}
    for check in live.of("AdmissionCheck"):
        spec, name = mapping(check, "spec"), text(check, "metadata", "name")
        controller, parameters = text(spec, "controllerName"), texts(spec, "parameters")
        if controller == names.BUILTIN_CONTROLLER_NAME and parameters.get("name") not in configs:
            reason = f"names a ProvisioningRequestConfig {parameters.get('name', '')!r} that does not exist."
            findings.lost(title(check), "spec.parameters", reason, "left out; the object stays as it is")
            continue
        found[name] = {"controllerName": controller} | ({"parameters": parameters} if parameters else {})
    return found


def to_request_configs(live: LiveCluster) -> dict[str, Any]:
    return {
        text(each, "metadata", "name"): _request_config(each) for each in live.of("ProvisioningRequestConfig")
    }


def _request_config(config: Manifest) -> dict[str, Any]:
    spec = mapping(config, "spec")
    retry = mapping(spec, "retryStrategy")
    managed = spec.get("managedResources")
    selector = items(mapping(spec, "podSetUpdates"), "nodeSelector")
    values = {
        "provisioningClassName": text(spec, "provisioningClassName"),
        "parameters": texts(spec, "parameters"),
        "managedResources": list(managed) if isinstance(managed, list) else [],
        "retryStrategy": {key: retry[key] for key in _RETRY if retry.get(key) is not None},
        "podSetMergePolicy": text(spec, "podSetMergePolicy"),
        "nodeSelector": {
            text(each, "key"): text(each, "valueFromProvisioningClassDetail") for each in selector
        },
    }
    return {key: value for key, value in values.items() if value}
