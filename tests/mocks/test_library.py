"""Components in programs of one's own: names, Inputs, dependencies, and what every Args has to be."""

import dataclasses
import importlib
import inspect
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

import muster.components
from muster.artifacts import resolved
from muster.components.bundle import Bundle, BundleProvider
from muster.components.clusters.cluster import ClusterInputs, ExistingCluster, ExistingClusterArgs
from muster.components.clusters.eks import EksGpuCluster, EksGpuClusterArgs, ExistingVpcArgs
from muster.components.clusters.gke import ExistingNetworkArgs
from muster.components.component import Component
from muster.components.context import PlatformContext
from muster.components.gang_admission import GangAdmission, GangAdmissionArgs
from muster.components.gpu_operator import crd_manifests
from muster.components.platform import Platform, PlatformArgs
from muster.components.program import DeletionGuard
from muster.components.queues import Queues, QueuesArgs
from muster.components.schedulers.kueue import Kueue, KueueArgs
from muster.config import load
from muster.errors import MusterError
from muster.model import clusters
from muster.model.clusters import EksCluster
from tests.mocks import shipped
from tests.mocks.recorder import Program, run, secret

BUNDLE = "muster:k8s:Bundle"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


class Thing(pulumi.CustomResource):
    """A resource of the program around the components."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Thing", name, {})


def components() -> list[type[pulumi.ComponentResource]]:
    for module in pkgutil.walk_packages(muster.components.__path__, "muster.components."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted([*Component.__subclasses__(), DeletionGuard], key=lambda each: each.__name__)


def args_of(component: type[pulumi.ComponentResource]) -> type[Any]:
    found: type[Any] = inspect.signature(component).parameters["args"].annotation
    return found


@pytest.mark.parametrize("component", components(), ids=lambda each: each.__name__)
def test_every_component_has_one_shape_and_documented_args(component: Any) -> None:
    assert list(inspect.signature(component).parameters) == ["name", "args", "opts"]
    args = args_of(component)
    assert args.__name__ == f"{component.__name__}Args" or component.__module__.endswith("existing")
    assert args.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(args))
    undocumented = [
        each.name for each in dataclasses.fields(args) if f"`{each.name}`" not in str(args.__doc__)
    ]
    assert not undocumented


@pytest.mark.parametrize("name", ["gke-prod", "eks-prod", "kai-prod"])
def test_two_platforms_share_no_urn(name: str) -> None:
    stack = shipped.shipped(name)
    artifacts = resolved.resolve_artifacts(stack, name=name)

    def program() -> None:
        for each in ("muster", "second", "third"):
            Platform(each, PlatformArgs(stack=stack, artifacts=artifacts))

    urns = [each.urn for each in run(program).resources]
    assert len(urns) == len(set(urns))


def existing() -> Program:
    stack = replace(shipped.shipped("gke-prod"), cluster=clusters.ExistingCluster(name="x", context="here"))
    artifacts = resolved.resolve_artifacts(stack, name="test")

    def program() -> None:
        thing = Thing("thing")
        Platform(
            "own",
            PlatformArgs(
                stack=stack,
                artifacts=artifacts,
                cluster=ClusterInputs(kubeconfig=thing.urn.apply(lambda _: "{}")),
                image=thing.urn.apply(lambda _: "registry.test/built@sha256:1"),
            ),
        )

    return run(program)


def test_a_kubeconfig_and_an_image_come_from_other_resources() -> None:
    program = existing()
    for type_, name in (
        ("pulumi:providers:kubernetes", "own-x-kubernetes"),
        ("pulumi:providers:muster", "own-x-bundles"),
    ):
        assert secret(program.one(type_, name).inputs["kubeconfig"]) == "{}"
    pod = program.one(DEPLOYMENT, "own-gang-admission-gang-admission-manager-deployment").inputs["spec"]
    assert pod["template"]["spec"]["containers"][0]["image"] == "registry.test/built@sha256:1"


def test_a_vpc_comes_from_other_resources_and_none_is_made() -> None:
    stack = shipped.shipped("eks-prod")
    assert isinstance(stack.cluster, EksCluster)
    cluster = stack.cluster

    def program() -> None:
        thing = Thing("thing")
        subnets = {zone: pulumi.Output.format("subnet-{0}-{1}", zone, thing.id) for zone in cluster.zones}
        vpc = ExistingVpcArgs(vpc=thing.urn.apply(lambda _: "vpc-own"), private_subnets=subnets)
        EksGpuCluster("own", EksGpuClusterArgs(cluster=cluster, pools=stack.pools, vpc=vpc))

    made = run(program)
    assert not made.of("aws:ec2/vpc:Vpc")
    inputs = made.one("aws:eks/cluster:Cluster", "own").inputs
    assert inputs["tags"]["muster.dev/vpc"] == f"{cluster.region}:vpc-own"
    assert set(inputs["vpcConfig"]["subnetIds"]) == {f"subnet-{zone}-thing-id" for zone in cluster.zones}


def test_a_vpc_without_a_subnet_for_every_zone_is_refused() -> None:
    stack = shipped.shipped("eks-prod")
    artifacts = resolved.resolve_artifacts(stack, name="eks-prod")
    inputs = ClusterInputs(vpc=ExistingVpcArgs(vpc="vpc-own", private_subnets={"elsewhere": "subnet-1"}))
    with pytest.raises(MusterError, match=r"\['elsewhere'\].*\n?.*Fix: give one private subnet"):
        run(lambda: Platform("own", PlatformArgs(stack=stack, artifacts=artifacts, cluster=inputs)))


def test_a_value_that_the_provider_does_not_take_is_refused() -> None:
    stack = shipped.shipped("eks-prod")
    artifacts = resolved.resolve_artifacts(stack, name="eks-prod")
    network = ExistingNetworkArgs(network="n", subnetwork="s", pods="p", services="v")
    args = PlatformArgs(stack=stack, artifacts=artifacts, cluster=ClusterInputs(network=network))
    with pytest.raises(MusterError, match="network: a cluster of provider eks does not take it"):
        run(lambda: Platform("own", args))


def test_everything_of_a_component_waits_for_what_it_depends_on_and_nothing_goes_before_it() -> None:
    stack = shipped.shipped("gke-prod")

    def program() -> None:
        first = Thing("first")
        provider = BundleProvider("bundles", kubeconfig="{}", context="c")
        queues = Queues(
            "queues",
            QueuesArgs(stack=stack, provider=provider),
            opts=pulumi.ResourceOptions(depends_on=[first]),
        )
        pulumi.ComponentResource("test:index:Own", "own", None, pulumi.ResourceOptions(depends_on=[queues]))

    made = run(program)
    first, own = made.one("test:index:Thing", "first"), made.one("test:index:Own", "own")
    for bundle in made.of(BUNDLE):
        assert made.comes_after(bundle, first), bundle.name
        assert made.comes_after(own, bundle), bundle.name


def test_a_team_on_the_queue_of_another_goes_before_that_one() -> None:
    """Kueue keeps a ClusterQueue until all work in it is gone."""
    shared = load(Path(__file__).parents[1] / "integration" / "kueue_api" / "shared_queue.yaml")

    def program() -> None:
        provider = BundleProvider("bundles", kubeconfig="{}", context="c")
        Queues("queues", QueuesArgs(stack=shared, provider=provider))

    made = run(program)
    owner, guest = (
        next(each for each in made.of(BUNDLE) if each.name.endswith(team)) for team in ("vision", "speech")
    )
    assert made.comes_after(guest, owner)
    assert not made.comes_after(owner, guest)


def test_scheduler_and_gang_admission_work_without_a_platform() -> None:
    """As docs/library.md shows it."""
    stack = shipped.shipped("gke-prod")

    def program() -> None:
        cluster = ExistingCluster(
            "here", ExistingClusterArgs(cluster_name="here", kubeconfig="{}", context="c")
        )
        context = PlatformContext.of(stack, cluster, artifacts=resolved.resolve_artifacts(stack, name="x"))
        crds = Bundle(
            "crds",
            manifests=crd_manifests(context),
            opts=pulumi.ResourceOptions(provider=cluster.bundles, retain_on_delete=True),
        )
        kueue = Kueue("kueue", KueueArgs(context=context), opts=pulumi.ResourceOptions(depends_on=[crds]))
        GangAdmission(
            "gang-admission",
            GangAdmissionArgs(context=context),
            opts=pulumi.ResourceOptions(depends_on=[kueue]),
        )

    made = run(program)
    manager = made.one(DEPLOYMENT, "gang-admission-manager-deployment")
    release = made.one("kubernetes:helm.sh/v3:Release", "kueue")
    assert made.comes_after(manager, release)
    assert made.comes_after(release, made.one(BUNDLE, "crds"))


def test_the_folder_of_the_plugin_holds_no_other_module() -> None:
    """Python puts it first on its path: `platform.py` there would hide the standard library's."""
    folder = Path(muster.components.__file__).parent / "provider"
    assert [path.name for path in folder.glob("*.py")] == ["__main__.py"]
