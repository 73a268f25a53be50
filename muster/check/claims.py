"""Devices that a job claims by Dynamic Resource Allocation, as Kueue judges them after admission.

Responsible for the ResourceClaimTemplates that lie beside a job, and those that a ComputeDomain makes, of a
file or of our controller. Which claims no queue admits is a policy's (render/tenancy/policies/claims.py).

Source: https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/pkg/dra/claims.go and
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/main/api/nvidia.com/resource/v1beta1, read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from muster.check.manifests import Json, objects_of
from muster.check.policies import Finding, Level
from muster.controller.kueue.default_queue import mapping
from muster.model.names import CHANNEL_DEVICE_CLASS, compute_domain_template
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode

KUEUE: Final = "Kueue"
_KEY: Final = "muster:kueue.deviceClasses"

# Of one request: its DeviceClass and how many devices of it, as in the API.
_Request = Mapping[str, Any]
Templates = Mapping[str, Sequence[_Request]]


def claim_templates(bodies: Iterable[Json]) -> Templates:
    """The requests of each ResourceClaimTemplate, by its name."""
    found: dict[str, Sequence[_Request]] = {}
    for body in bodies:
        if body["kind"] == "ResourceClaimTemplate":
            requests = mapping(body, "spec", "spec", "devices").get("requests")
            found[str(body["metadata"].get("name"))] = objects_of(requests)
        elif body["kind"] == "ComputeDomain":
            channel = mapping(body, "spec", "channel")
            mode = "All" if channel.get("allocationMode") == "All" else "ExactCount"
            request = {"exactly": {"deviceClassName": CHANNEL_DEVICE_CLASS, "allocationMode": mode}}
            found[str(mapping(channel, "resourceClaimTemplate").get("name"))] = [request]
    return found


def claim_findings(stack: Stack, body: Json, templates: Templates) -> Iterator[Finding]:
    """Why Kueue makes the Workload of a job inadmissible, which its author sees in no Event."""
    if stack.scheduler is not Scheduler.KUEUE:
        return
    claims = dict.fromkeys(
        (str(each.get("name")), each.get("resourceClaimTemplateName")) for each in _claims(body.get("spec"))
    )
    if claims and not stack.kueue.install:
        message = (
            "Kueue admits no claim of a DeviceClass that its configuration does not map, and this stack does "
            "not install Kueue; look for resources.deviceClassMappings there"
        )
        yield Finding(Level.WARNED, KUEUE, message)
        return
    own = compute_domain_template(str(body["metadata"].get("name"))) if stack.makes_compute_domains else ""
    classes, is_enforced = stack.kueue.device_classes, stack.tenancy.mode is TenancyMode.ENFORCE
    for name, template in claims:
        if not classes or not isinstance(template, str):
            if not is_enforced:  # Otherwise the policy has refused it.
                fix = "write resourceClaimTemplateName" if classes else f"map its DeviceClass with {_KEY}"
                yield _refused(f"resourceClaims {name}: Kueue does not admit it; {fix}")
        elif template in templates:
            for request in templates[template]:
                yield from _judged(name, template, request, classes)
        elif template != own:
            listed = ", ".join(classes)
            message = (
                f"resourceClaims {name}: no file has template {template}; Kueue admits the job if it claims "
                f"devices of {listed} alone{f', and {own} is made for this job' if own else ''}"
            )
            yield Finding(Level.WARNED, KUEUE, message)


def _judged(name: str, template: str, request: _Request, classes: Mapping[str, str]) -> Iterator[Finding]:
    place, exactly = f"resourceClaims {name}, template {template}", mapping(request, "exactly")
    of_class = exactly.get("deviceClassName")
    if request.get("firstAvailable"):
        yield _refused(
            f"{place}: Kueue counts no list of alternatives; write exactly in place of firstAvailable"
        )
    elif exactly.get("adminAccess"):
        yield _refused(f"{place}: Kueue admits no adminAccess; remove it")
    elif exactly.get("allocationMode") == "All":
        single = "allocationMode: Single" if of_class == CHANNEL_DEVICE_CLASS else "ExactCount and count"
        yield _refused(f"{place}: Kueue cannot count allocationMode All; write {single}")
    elif of_class not in classes:
        fix = f"claim one of {', '.join(classes)}, or map it with {_KEY}"
        yield _refused(f"{place}: DeviceClass {of_class} is mapped to no quota; {fix}")


def _refused(message: str) -> Finding:
    return Finding(Level.REFUSED, KUEUE, message)


def _claims(value: Any) -> Iterator[Json]:
    """The `resourceClaims` of every pod template below."""
    if isinstance(value, dict):
        yield from objects_of(value.get("resourceClaims"))
        for below in value.values():
            yield from _claims(below)
    elif isinstance(value, list):
        for below in value:
            yield from _claims(below)
