"""URNs of the shipped stacks: a resource that changes its URN is deleted and created again in every cluster.

urns.json holds those of the last build in which components were no library yet (commit 182c199): types of the
parents and names. A resource that is new since then is listed in `NEW`. The node groups of EKS and their
tags were recorded again when a pool became one group for each of its zones. The placement group of eks-prod
was taken out when its stack no longer had one.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.mocks import shipped
from tests.mocks.recorder import run

RECORDED: Final[dict[str, list[str]]] = json.loads((Path(__file__).parent / "urns.json").read_text())
NEW: Final = frozenset(
    {
        "muster:clusters:GkeGpuCluster$gcp:compute/firewall:Firewall::muster-dev-control-plane",
        "muster:clusters:GkeGpuCluster$gcp:compute/firewall:Firewall::ml-prod-control-plane",
        *(
            f"muster:clusters:EksGpuCluster$aws:eks/addon:Addon::{cluster}-eks-node-monitoring-agent"
            for cluster in ("muster-dev", "ml-prod", "kai-prod")
        ),
        "muster:index:Platform$muster:index:EfaDevicePlugin::efa",
        "muster:index:EfaDevicePlugin$kubernetes:apps/v1:DaemonSet::efa-aws-efa-k8s-device-plugin-daemonset",
        "muster:index:GangAdmission$kubernetes:rbac.authorization.k8s.io/v1:ClusterRole::muster-gang-admission-manager-taints-clusterrole",
        "muster:index:GangAdmission$kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding::muster-gang-admission-manager-taints-clusterrolebinding",
        *(
            f"muster:index:GangAdmission$kubernetes:rbac.authorization.k8s.io/v1:{kind}::muster-broken-nodes-{kind.lower()}"
            for kind in ("ClusterRole", "ClusterRoleBinding")
        ),
        "muster:index:GangAdmission$kubernetes:core/v1:ResourceQuota::placeholders-resourcequota",
        "muster:schedulers:Kueue$kubernetes:networking.k8s.io/v1:NetworkPolicy::kueue-network",
        "muster:index:KubeRay$kubernetes:networking.k8s.io/v1:NetworkPolicy::kuberay-network",
    }
)


@pytest.mark.parametrize("name", shipped.STACKS)
def test_every_resource_keeps_its_urn(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(shipped.kubeconfig(tmp_path)))
    resources = run(shipped.program(name, tmp_path)).resources
    urns = [each.urn.split("::", 2)[2] for each in resources]
    assert len(urns) == len(set(urns))
    assert set(urns) - NEW == set(RECORDED[name])


def test_every_shipped_stack_is_recorded() -> None:
    assert RECORDED.keys() == set(shipped.STACKS)
