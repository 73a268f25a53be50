"""What the cluster's webhooks and policies have made of an object that we created.

They may add to it. What we set has to be there as we set it: by our labels and annotations the object is
found again, and by the rest of a request the cloud provisions. Pure: compares what was sent and what came
back.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.kube.resource import Object

T = TypeVar("T", bound=Object)


def alterations(sent: T, made: T) -> list[str]:
    """What is not as it was sent: `spec.parameters.zone is a instead of b`. Empty where nothing is."""
    found = [
        *_different("metadata.labels", sent.metadata.labels, made.metadata.labels),
        *_different("metadata.annotations", sent.metadata.annotations, made.metadata.annotations),
    ]
    if isinstance(sent, ProvisioningRequest) and isinstance(made, ProvisioningRequest):
        found += _request_alterations(sent, made)
    return found


def _request_alterations(sent: ProvisioningRequest, made: ProvisioningRequest) -> Iterator[str]:
    before, after = sent.spec, made.spec
    if before.provisioning_class_name != after.provisioning_class_name:
        yield _instead(
            "spec.provisioningClassName", after.provisioning_class_name, before.provisioning_class_name
        )
    yield from _different("spec.parameters", before.parameters, after.parameters)
    if before.pod_sets != after.pod_sets:
        yield "spec.podSets are others"


def _different(path: str, sent: Mapping[str, str], made: Mapping[str, str]) -> Iterator[str]:
    for key, value in sent.items():
        if made.get(key) != value:
            yield _instead(f"{path}.{key}", made.get(key), value)


def _instead(path: str, made: str | None, sent: str) -> str:
    return f"{path} is {'missing' if made is None else made or 'empty'} instead of {sent or 'empty'}"
