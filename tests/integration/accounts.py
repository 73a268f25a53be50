"""The controller's accounts on a bare control plane: their rights and limits, as a stack makes them."""

import json
import urllib.error
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pulumi_kubernetes as kubernetes
import yaml

from muster.artifacts.resolved import Artifacts
from muster.components import gang_authority
from muster.components.bundle import BundleProvider
from muster.components.context import PlatformContext
from muster.components.gang_admission import GangAdmission, GangAdmissionArgs
from muster.components.gang_pods import sizing_of
from muster.model.names import SYSTEM_NAMESPACE
from muster.model.stack import ArtifactSource, Stack
from muster.model.tenancy import TenancyMode
from muster.render.tenancy.policies.fences import fences
from tests.envtest import ControlPlane
from tests.mocks.recorder import run

RIGHTS: Final = frozenset(
    ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)


def account_kubeconfig(plane: ControlPlane, account: str) -> Path:
    """A kubeconfig, in JSON as our programs read it, with a fresh token of one of our ServiceAccounts."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    written = plane.kubeconfig(plane.call("POST", path, body)["status"]["token"], name=account)
    written.write_text(json.dumps(yaml.safe_load(written.read_text())))
    return written


def attack(
    plane: ControlPlane,
    method: str,
    path: str,
    body: dict[str, Any],
    kind: str = "application/json",
    *,
    account: str = gang_authority.MANAGER,
) -> int:
    """The status that an account's own token gets for a call that changes nothing (`dryRun`)."""
    config = json.loads(account_kubeconfig(plane, account).read_text())
    thief = replace(plane, token=config["users"][0]["user"]["token"])
    try:
        thief.call(method, f"{path}?dryRun=All", body, content_type=kind)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def limits(stack: Stack) -> list[dict[str, Any]]:
    """The policies that limit both accounts."""
    bodies = [body for fence in fences(stack) for body in fence.manifests(TenancyMode.ENFORCE)]
    found: list[dict[str, Any]] = json.loads(json.dumps(bodies))
    return found


def registered(stack: Stack) -> list[dict[str, Any]]:
    """What the component makes, in the order of its making, in two replicas as outside of the plane."""
    artifacts = Artifacts(
        source="test",
        charts={},
        kustomize={},
        crds={},
        images={name: f"registry.test/{name}@sha256:{'ab' * 32}" for name in ("gang-admission", "pause")},
        programs={},
    )

    def program() -> None:
        GangAdmission(
            "gang-admission",
            GangAdmissionArgs(
                context=PlatformContext(
                    stack=stack,
                    artifacts=artifacts,
                    sizing=sizing_of(replace(stack, artifacts=ArtifactSource.UPSTREAM)),
                    provider=kubernetes.Provider("cluster", kubeconfig="{}"),
                    bundles=BundleProvider("bundles", kubeconfig="{}", context="c"),
                )
            ),
        )

    found: list[dict[str, Any]] = []
    for each in run(program).resources:
        if each.type == "muster:k8s:Bundle":
            texts = each.inputs["manifests"].values()
            found += [item for text in texts for item in json.loads(text).values()]
        elif each.type.startswith("kubernetes:"):
            found.append(_whole(dict(each.inputs)))
    return sorted(found, key=lambda item: item["kind"] != "Namespace")


def _whole(value: Any) -> Any:
    """The engine's numbers are floating; the API's are not."""
    match value:
        case dict():
            return {key: _whole(each) for key, each in value.items()}
        case list():
            return [_whole(each) for each in value]
        case float() if value.is_integer():
            return int(value)
    return value
