"""A throw-away etcd and kube-apiserver on loopback, for tests that need the real API and no nodes."""

import json
import secrets
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import pytest
from xdist.scheduler import LoadScopeScheduling

from muster.model.stack import Scheduler
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.process import PROVISIONING_CRD
from tests.integration import test_rights
from tests.integration.rights import STRICT_OWNERS, audited

_LAST: Final = Path(test_rights.__file__)
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass
class ApiServer(ControlPlane):
    """A running API server; the ProvisioningRequest kind is there already."""

    @property
    def admin(self) -> Path:
        """A kubeconfig that may do everything."""
        return self.kubeconfig()

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of the ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.call("POST", path, body)["status"]["token"]
        return self.kubeconfig(token, name=f"{namespace}-{name}-{secrets.token_hex(4)}")

    @contextmanager
    def serving(self, kinds: list[dict[str, Any]]) -> Iterator[Self]:
        """With these CustomResourceDefinitions, until the block ends."""
        self.define(kinds)
        yield self
        for kind in kinds:
            self.call("DELETE", f"{_DEFINITIONS}/{kind['metadata']['name']}")

    def refusal(self, path: str, body: dict[str, Any]) -> str:
        """Why the server would not create it, unknown fields counted; "" where it would."""
        try:
            self.call("POST", f"{path}?fieldValidation=Strict&dryRun=All", body)
        except urllib.error.HTTPError as error:
            return str(json.load(error)["message"])
        return ""


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One server for all tests of the session; whoever makes cluster-scoped objects removes them again."""
    with api_server_in(tmp_path_factory.mktemp("api-server")) as server:
        yield server


@contextmanager
def api_server_in(folder: Path) -> Iterator[ApiServer]:
    programs = built.programs(("etcd", "kube-apiserver"), (PROVISIONING_CRD,))
    flags = (STRICT_OWNERS, *audited(folder, Scheduler.KAI))
    with envtest.control_plane(folder, programs, flags=flags) as plane:
        server = ApiServer(plane.url, plane.etcd, plane.folder, plane.token, plane.server, plane.store)
        server.define(programs.kinds(PROVISIONING_CRD))
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks back on others' tests is run after all of them."""
    items.sort(key=lambda item: item.path == _LAST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs a folder, whose servers it starts once."""
    if config.getvalue("dist") != "loadscope":
        return None
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = partial(_folder_of, config.rootpath)
    return scheduling


def _folder_of(root: Path, nodeid: str) -> str:
    path = root / nodeid.partition("::")[0]
    folder = path.relative_to(_LAST.parent).parts[0]
    is_looked_at = any(folder in folders for folders in test_rights.TELLING.values())
    return "rights" if is_looked_at or path == _LAST else folder
