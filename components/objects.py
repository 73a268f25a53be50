"""One Kubernetes object as one resource of the Kubernetes provider, from its manifest.

The SDK's own classes register the same resources; they want each field in Python's spelling and cost a second
of imports in every preview. A manifest is what the model renders, the documentation shows and `kubectl`
prints.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from muster.components.component import Component
from muster.render.manifest import Manifest


class KubernetesObject(pulumi.CustomResource):
    """Applied by the server; a Deployment is done when it is rolled out. Its type is the manifest's."""

    def __init__(self, name: str, manifest: Manifest, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__(token(manifest), name, dict[str, Any](manifest), opts)


def child(
    parent: Component,
    body: Manifest,
    *,
    provider: kubernetes.Provider,
    after: Sequence[pulumi.Resource] | None = None,
    replaced_with: str = "",
) -> KubernetesObject:
    """The object `body` as a child of `parent`, named after the object and its kind. `replaced_with`: an
    annotation; when it changes, the object is deleted and created again.
    """
    name = parent.child_name(f"{body['metadata']['name']}-{body['kind'].lower()}")
    opts = parent.child_options(provider=provider, after=after)
    if replaced_with:
        opts.replace_on_changes = [f'metadata.annotations["{replaced_with}"]']
        opts.delete_before_replace = True
    return KubernetesObject(name, body, opts=opts)


def token(manifest: Manifest) -> str:
    """The provider's name for a kind: `kubernetes:apps/v1:Deployment`; the group without a name is `core`."""
    api_version = manifest["apiVersion"]
    full = api_version if "/" in api_version else f"core/{api_version}"
    return f"kubernetes:{full}:{manifest['kind']}"
