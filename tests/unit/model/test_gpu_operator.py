"""The GPU Operator's values on each cloud and image: one advertiser, one driver, and safe versions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.artifacts import resolved
from muster.artifacts.catalogue import catalogue
from muster.artifacts.resolved import ArtifactError
from muster.components import gpu_operator
from muster.config import load, parse
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.accelerators import ACCELERATORS
from muster.model.clusters import Provider
from muster.model.gpu_operator import (
    OBEYS_VARIABLE,
    GpuStack,
    Installation,
    gke_sharing,
    installation,
    node_labels,
    values,
)
from muster.model.pools import MIG_PROFILES, Sharing
from muster.model.stack import Stack
from muster.model.versions import minimum_version_rules
from muster.model.violations import Violation
from muster.render.karpenter import user_data
from tests.unit.model.chart_values import published
from tests.unit.model.model_stacks import new_config, pool_of

TOOLKIT = "nvidia-container-toolkit"
SYSTEM = {"muster.dev/pool": "system"}


def config(provider: Provider, *, cluster: dict[str, Any] | None = None, **pool: Any) -> dict[str, Any]:
    """Of a new stack, with more said of its cluster and of its pool l4."""
    written = new_config(provider)
    written["muster:cluster"] |= cluster or {}
    written["muster:pools"]["l4"] |= pool
    return written


def stack(provider: Provider, **more: Any) -> Stack:
    return parse(config(provider, **more), source="x")


def violations_of(provider: Provider, **more: Any) -> list[Violation]:
    written = config(provider, **more)
    return examine(parse_text(yaml.safe_dump({"config": written}), source="x"))[1]


def installed(some: Stack) -> Installation:
    found = installation(some)
    assert found is not None
    return found


def wanted(provider: Provider, **more: Any) -> Installation:
    return installed(stack(provider, **more))


def render(provider: Provider, **more: Any) -> dict[str, Any]:
    return values(wanted(provider, **more), control_nodes=SYSTEM)


INSTALLER = {"gpuDriver": "installer"}


def test_gke_alone_installs_the_driver_and_advertises() -> None:
    found = render(Provider.GKE)
    assert found["driver"]["enabled"] is False
    assert found["devicePlugin"] == {"enabled": False}
    assert (
        found["hostPaths"]["driverInstallDir"]
        == found["toolkit"]["installDir"]
        == "/home/kubernetes/bin/nvidia"
    )
    assert [each["kind"] for each in gpu_operator.objects(wanted(Provider.GKE), pause_image="p")] == [
        "ResourceQuota"
    ]


def test_with_the_installer_the_operator_advertises_and_the_installer_is_there() -> None:
    found = render(Provider.GKE, cluster=INSTALLER)
    assert found["driver"]["enabled"] is False
    assert found["devicePlugin"] == {"enabled": True}
    around = gpu_operator.objects(wanted(Provider.GKE, cluster=INSTALLER), pause_image="p")
    assert [each["kind"] for each in around] == ["ResourceQuota", "DaemonSet"]


def test_on_eks_driver_and_toolkit_are_the_images() -> None:
    found = render(Provider.EKS)
    assert found["driver"] == {"enabled": False}
    assert found["toolkit"] == {"enabled": False}
    assert found["devicePlugin"]["enabled"] is True
    assert "hostPaths" not in found
    assert gpu_operator.objects(wanted(Provider.EKS), pause_image="p") == []


def test_a_stack_of_bottlerocket_nodes_alone_has_no_operator() -> None:
    assert installation(stack(Provider.EKS, image="bottlerocket")) is None


def test_bottlerocket_pools_are_warned_of_that_they_have_no_metrics_of_gpus() -> None:
    (found,) = violations_of(Provider.EKS, image="bottlerocket")
    assert (found.level, found.path) == ("warning", "muster:pools.l4.image")
    assert "no metrics of its GPUs" in found.message
    assert violations_of(Provider.EKS) == []


def test_the_operator_keeps_off_bottlerocket_nodes() -> None:
    written = config(Provider.EKS)
    l4 = written["muster:pools"]["l4"]
    written["muster:pools"]["own"] = {**l4, "image": "bottlerocket"}
    both = parse(written, source="x")
    found = installed(both)
    assert found.has_plugin
    labels = {pool.name: node_labels(pool, both.cluster) for pool in both.pools if pool.is_gpu}
    assert labels == {"l4": {}, "own": {"nvidia.com/gpu.deploy.operands": "false"}}
    assert [pool.name for pool in found.pools] == ["l4"]


@pytest.mark.parametrize("provider", [Provider.GKE, Provider.EKS])
def test_metrics_are_on_and_controllers_stay_off_gpu_nodes(provider: Provider) -> None:
    found = render(provider)
    assert found["dcgmExporter"]["enabled"] is True
    assert found["operator"]["nodeSelector"]["muster.dev/pool"] == "system"
    discovery = found["node-feature-discovery"]
    assert discovery["master"]["nodeSelector"] == discovery["gc"]["nodeSelector"] == SYSTEM


def test_operands_run_on_queued_nodes_too() -> None:
    keys = {each["key"] for each in render(Provider.GKE)["daemonsets"]["tolerations"]}
    assert keys == {"nvidia.com/gpu", "cloud.google.com/gke-queued"}


def test_the_quota_holds_every_operand_of_every_gpu_node() -> None:
    small, big = (gpu_operator.quota(wanted(Provider.GKE, maxNodes=nodes)) for nodes in (8, 1000))
    assert int(small["spec"]["hard"]["pods"]) >= 80
    assert int(big["spec"]["hard"]["pods"]) >= 10_000
    (scope,) = big["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == ["system-node-critical", "system-cluster-critical"]


def test_nothing_is_installed_on_nodes_of_an_unknown_cloud() -> None:
    assert installation(stack(Provider.EXISTING)) is None
    assert wanted(Provider.EXISTING, cluster={"cloud": "gke"}).kind is GpuStack.GKE_MANAGED


@pytest.mark.parametrize("cloud", ["aks", "other"])
def test_elsewhere_the_operator_brings_the_driver_and_replaces_none_under_running_work(cloud: str) -> None:
    found = render(Provider.EXISTING, cluster={"cloud": cloud})
    assert found["driver"] == {"enabled": True, "upgradePolicy": {"autoUpgrade": False}}
    assert found["devicePlugin"] == {"enabled": True}
    assert "hostPaths" not in found
    assert gpu_operator.objects(wanted(Provider.EXISTING, cluster={"cloud": cloud}), pause_image="p") == []


@pytest.mark.parametrize("cloud", ["gke", "aks", "other"])
def test_the_operator_s_runtime_gives_no_container_the_gpus_that_it_names(cloud: str) -> None:
    found = render(Provider.EXISTING, cluster={"cloud": cloud})
    assert found["cdi"] == {"enabled": True}
    assert {"name": OBEYS_VARIABLE, "value": "false"} in found["toolkit"]["env"]


def test_the_runtime_obeys_where_kai_names_parts_of_gpus() -> None:
    found = wanted(Provider.EXISTING, cluster={"cloud": "other"})
    pools = tuple(replace(pool, by_variable=True) for pool in found.pools)
    toolkit = values(replace(found, pools=pools), control_nodes=SYSTEM)["toolkit"]
    assert toolkit["env"] == [{"name": OBEYS_VARIABLE, "value": "true"}]


@pytest.mark.parametrize(("name", "obeys"), [("eks-prod", False), ("kai-prod", True)])
def test_a_stack_s_nodes_obey_the_variable_only_for_parts_of_gpus(name: str, obeys: bool) -> None:
    found = load(Path(__file__).parents[3] / "stacks" / f"Pulumi.{name}.yaml")
    told = [user_data(pool) or "" for pool in found.pools if pool.is_nvidia]
    assert told
    assert all(("nvidia-ctk" in each) is not obeys for each in told)


def test_on_oke_driver_toolkit_and_plugin_are_oracles() -> None:
    found = render(Provider.EXISTING, cluster={"cloud": "oci"})
    assert [found[part]["enabled"] for part in ("driver", "toolkit", "devicePlugin")] == [False] * 3
    assert found["dcgmExporter"]["enabled"] is True


# ---- sharing -----------------------------------------------------------------


@pytest.mark.parametrize(("kind", "key"), [("time-slicing", "timeSlicing"), ("mps", "mps")])
def test_shares_reach_the_plugin_and_its_node_asks_for_them(kind: str, key: str) -> None:
    shared = stack(Provider.EKS, sharing=kind, shares=4)
    plugin = values(installed(shared), control_nodes={})["devicePlugin"]["config"]
    name = node_labels(pool_of(shared, "l4"), shared.cluster)["nvidia.com/device-plugin.config"]
    entry = yaml.safe_load(plugin["data"][name])
    assert entry["sharing"][key]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 4}]
    assert yaml.safe_load(plugin["data"][plugin["default"]]) == {"version": "v1"}


def test_quotas_count_shares() -> None:
    assert pool_of(stack(Provider.EKS), "l4").max_gpus == 8
    assert pool_of(stack(Provider.EKS, sharing="mps", shares=4), "l4").max_gpus == 32


@pytest.mark.parametrize("accelerator", MIG_PROFILES)
def test_every_profile_cuts_a_gpu_into_what_its_memory_holds(accelerator: str) -> None:
    gib = ACCELERATORS[accelerator].memory_mib / 1024
    for profile, instances in MIG_PROFILES[accelerator].items():
        slices, _, memory = profile.partition("g.")
        assert int(slices) * instances <= 7
        assert int(memory.removesuffix("gb")) * instances <= gib * 1.05


def test_the_mig_manager_reads_the_nodes_label() -> None:
    cut = stack(
        Provider.EKS,
        accelerator="nvidia-h100-80gb",
        machine="p5.48xlarge",
        capacity="on-demand",
        sharing="mig",
        migProfile="1g.10gb",
    )
    pool = pool_of(cut, "l4")
    assert pool.slots_per_node == 56
    assert node_labels(pool, cut.cluster)["nvidia.com/mig.config"] == "all-1g.10gb"
    rendered = values(installed(cut), control_nodes={})
    assert rendered["mig"] == {"strategy": "single"}
    assert rendered["migManager"]["enabled"] is True


def test_on_gke_its_own_plugin_is_configured_by_the_node_pool() -> None:
    shared = stack(Provider.GKE, sharing="time-slicing", shares=4)
    pool = pool_of(shared, "l4")
    assert node_labels(pool, shared.cluster) == {}
    asked = gke_sharing(pool, shared.cluster)
    assert asked is not None
    assert (asked.strategy, asked.clients) == ("TIME_SHARING", 4)
    installer = stack(Provider.GKE, cluster=INSTALLER, sharing="time-slicing", shares=4)
    assert gke_sharing(pool, installer.cluster) is None
    assert node_labels(pool, installer.cluster) != {}


@pytest.mark.parametrize("kind", [Sharing.TIME_SLICING, Sharing.MPS])
def test_sharing_without_isolation_is_a_warning(kind: Sharing) -> None:
    (warning,) = violations_of(Provider.EKS, sharing=kind.value, shares=2)
    assert warning.level == "warning"
    assert "does not isolate" in warning.message


@pytest.mark.parametrize(
    ("provider", "more", "path", "words"),
    [
        (Provider.EKS, {"sharing": "mps"}, "shares", "2 to 48"),
        (Provider.EKS, {"shares": 3}, "sharing", "is missing"),
        (Provider.EKS, {"sharing": "mig", "migProfile": "1g.5gb"}, "sharing", "cannot be cut"),
        (
            Provider.EKS,
            {"sharing": "mps", "shares": 2, "migProfile": "1g.5gb"},
            "migProfile",
            "means nothing",
        ),
        (Provider.EKS, {"sharing": "mps", "shares": 2, "image": "bottlerocket"}, "sharing", "Bottlerocket"),
        (Provider.EKS, {"sharing": "mig", "shares": 2}, "shares", "follows from"),
        (
            Provider.EXISTING,
            {"cluster": {"cloud": "oci"}, "sharing": "mps", "shares": 2},
            "sharing",
            "NvidiaGpuPlugin",
        ),
    ],
)
def test_sharing_that_cannot_be_is_refused(
    provider: Provider, more: dict[str, Any], path: str, words: str
) -> None:
    found = {each.path: each.message for each in violations_of(provider, **more) if each.level == "error"}
    assert words in found[f"muster:pools.l4.{path}"]


# ---- versions ------------------------------------------------------------------


def test_the_table_holds_versions_without_known_ways_out() -> None:
    charts = catalogue().charts
    versions = {name: entry.version for name, entry in charts.items()}
    assert minimum_version_rules(versions | {TOOLKIT: charts["gpu-operator"].toolkit}) == []


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("gpu-operator", "v25.3.0", "CVE-2025-23266"),
        (TOOLKIT, "1.17.7", "CVE-2025-23266"),
        ("kuberay", "v1.4.2", "KAI"),
    ],
)
def test_a_version_below_its_floor_is_refused_with_the_reason(name: str, version: str, expected: str) -> None:
    (found,) = minimum_version_rules({name: version})
    assert expected in found.message


def test_a_table_with_such_a_version_stops_every_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogue()
    unsafe = replace(known.charts["gpu-operator"], version="v25.3.0")
    spoiled = replace(known, charts={**known.charts, "gpu-operator": unsafe})
    monkeypatch.setattr(resolved, "catalogue", lambda: spoiled)
    with pytest.raises(ArtifactError, match="CVE-2025-23266"):
        resolved.resolve_artifacts(stack(Provider.GKE), name="here")


def test_the_table_has_the_toolkit_that_the_chart_deploys() -> None:
    entry = catalogue().charts["gpu-operator"]
    file = published(entry.values)
    if file.is_file():
        assert yaml.safe_load(file.read_text())["toolkit"]["version"] == f"v{entry.toolkit}"
