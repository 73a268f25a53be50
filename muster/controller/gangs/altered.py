"""What the cluster's webhooks and policies have made of an object that we created.

They may add to it. What we set has to be there as we set it: by our labels and annotations the object is
found again, by the rest of a request the cloud provisions, and a pod keeps as much as it asks for. Pure:
compares what was sent and what came back.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeVar

from muster.controller.gangs.demand import amounts_once
from muster.controller.gangs.objects import NodeSelectorTerm, Pod, ProvisioningRequest
from muster.controller.kube.resource import Object
from muster.model.pods import figure

T = TypeVar("T", bound=Object)


def alterations(sent: T, made: T) -> list[str]:
    """What is not as it was sent: `spec.parameters.zone is a instead of b`. Empty where nothing is."""
    found = [
        *_different("metadata.labels", sent.metadata.labels, made.metadata.labels),
        *_different("metadata.annotations", sent.metadata.annotations, made.metadata.annotations),
    ]
    if isinstance(sent, ProvisioningRequest) and isinstance(made, ProvisioningRequest):
        found += _request_alterations(sent, made)
    if isinstance(sent, Pod) and isinstance(made, Pod):
        found += _pod_alterations(sent, made)
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


def _pod_alterations(sent: Pod, made: Pod) -> Iterator[str]:
    """A placeholder that keeps less than a pod of its gang needs, or stands elsewhere, keeps nothing."""
    yield from _different("spec.nodeSelector", sent.spec.node_selector, made.spec.node_selector)
    wanted, given = sent.spec.required_terms, made.spec.required_terms
    if wanted and not (given and all(any(map(partial(_keeps, term), wanted)) for term in given)):
        yield "the required terms of spec.affinity.nodeAffinity are others"
    if made.spec.containers == sent.spec.containers:
        return  # As nearly always; to add amounts up takes longer.
    left = amounts_once(made.spec)
    for name, amount in amounts_once(sent.spec).items():
        if left.get(name, 0) < amount:
            there = figure(name, left[name]) if name in left else None
            yield _instead(f"its request of {name}", there, figure(name, amount))


def _keeps(made: NodeSelectorTerm, sent: NodeSelectorTerm) -> bool:
    """Terms are alternatives. The rules of one hold together, so that a further one leaves fewer nodes."""
    return {*sent.match_expressions} <= {*made.match_expressions} and (
        {*sent.match_fields} <= {*made.match_fields}
    )


def _different(path: str, sent: Mapping[str, str], made: Mapping[str, str]) -> Iterator[str]:
    for key, value in sent.items():
        if made.get(key) != value:
            yield _instead(f"{path}.{key}", made.get(key), value)


def _instead(path: str, made: str | None, sent: str) -> str:
    return f"{path} is {'missing' if made is None else made or 'empty'} instead of {sent or 'empty'}"
