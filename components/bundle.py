"""The provider `muster` and its resource, as the program sees them.

A Bundle is many Kubernetes objects under one name (docs/decisions/001-resource-grain.md). The provider itself
is the room `muster/provider/`, a process of its own; nothing is imported from there.
"""

import json
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pulumi

from muster.render.manifest import Manifest


class BundleProvider(pulumi.ProviderResource):
    """Where Bundles go. `kubeconfig` is the text of a kubeconfig, `context` one of its contexts."""

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        context: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster", name, {"kubeconfig": kubeconfig, "context": context}, opts)


class Bundle(pulumi.CustomResource):
    """Objects that are applied in order and deleted in reverse.

    `manifests`: a key of our choice -> objects as text. `dry_runs`: a key of `manifests` -> objects that the
    API server has to accept in a dry run before the Bundle is done. A change of them alone is no update.
    """

    def __init__(
        self,
        name: str,
        *,
        manifests: Mapping[str, pulumi.Input[str]],
        dry_runs: Mapping[str, pulumi.Input[str]] = MappingProxyType({}),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"manifests": dict(manifests)} | ({"dryRuns": dict(dry_runs)} if dry_runs else {})
        super().__init__("muster:k8s:Bundle", name, inputs, opts)


def immutable(opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """For objects that can never change: other text is another object, made when the old one is gone."""
    replacing = pulumi.ResourceOptions(replace_on_changes=["manifests"], delete_before_replace=True)
    return pulumi.ResourceOptions.merge(opts, replacing)


def find(
    api_version: str, kind: str, selector: str, *, provider: BundleProvider
) -> pulumi.Output[list[Manifest] | None]:
    """What a cluster has already, in all namespaces. None where it was not asked: a preview that cannot reach
    it, or a cluster that does not exist yet, for which the engine itself answers with nothing.
    """
    found = pulumi.runtime.invoke_output(
        "muster:k8s:find",
        {"apiVersion": api_version, "kind": kind, "selector": selector},
        pulumi.InvokeOutputOptions(provider=provider),
    )
    return found.apply(_objects_of)


def _objects_of(answer: Mapping[str, Any] | None) -> list[Manifest] | None:
    if not answer or not answer.get("asked"):
        return None
    return [json.loads(each) for each in answer.get("objects") or ()]


def text(objects: Iterable[Manifest]) -> str:
    """Objects as one text, each under its kind and name, so that a preview names the object that changes."""
    labelled: dict[str, Manifest] = {}
    for each in objects:
        labelled[_label(each, taken=labelled)] = each
    return json.dumps(labelled, sort_keys=True, separators=(",", ":"))


def _label(body: Manifest, *, taken: Container[str]) -> str:
    """Kind and name; with the namespace where another one has an object of this name."""
    kind, metadata = body["kind"], body["metadata"]
    label = f"{kind}/{metadata['name']}"
    return label if label not in taken else f"{kind}/{metadata.get('namespace', '')}/{metadata['name']}"
