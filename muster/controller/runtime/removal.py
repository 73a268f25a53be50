"""Whether this shutdown is a restart or an uninstall.

Read from the Deployment that this process is a replica of: when it is gone, is being deleted or has no
replicas, no process follows this one.
"""

from typing import Final

from muster.controller.kube.client import Client
from muster.controller.kube.errors import NotFound
from muster.controller.kube.resource import Key, Object, Partial, Resource


class DeploymentSpec(Partial, frozen=True):
    replicas: int = 1


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()


DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True, type=Deployment)


class Removal:
    """Looks live, at the end."""

    def __init__(self, client: Client, deployment: Key) -> None:
        self._client, self._deployment = client, deployment

    async def is_under_way(self) -> bool:
        try:
            found = await self._client.get(DEPLOYMENT, self._deployment)
        except NotFound:
            return True
        return found.metadata.deletion_timestamp is not None or found.spec.replicas == 0
