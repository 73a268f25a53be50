"""docs/restore.md: `pulumi up` applies a Deployment that its state lacks to the one that is there. The
provider for Kubernetes gives each resource a field manager of its own, and does not force a conflict.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from muster.components import gang_pods
from muster.components.gang_pods import sizing_of
from muster.config import load
from muster.render.manifest import manifest
from tests.clouds.engine import ROOT
from tests.integration.conftest import ApiServer

_APPLY: Final = "application/apply-patch+yaml"
_STACK: Final = ROOT / "stacks" / "Pulumi.local.yaml"


@pytest.mark.parametrize("spec", [gang_pods.manager, gang_pods.webhooks])
def test_a_deployment_of_another_field_manager_is_taken_over(
    api_server: ApiServer, spec: Callable[..., dict[str, Any]]
) -> None:
    name = f"taken-over-{spec.__name__}"
    stack = load(_STACK)
    watched = stack if spec is gang_pods.manager else stack.observability
    described = spec("registry.test/image", sizing_of(stack), watched)
    body = manifest("apps/v1", "Deployment", name, namespace="default", spec=described)
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
    for field_manager in ("lost", "new"):
        api_server.call("PATCH", f"{path}?fieldManager={field_manager}", body, content_type=_APPLY)
    api_server.call("DELETE", path)
