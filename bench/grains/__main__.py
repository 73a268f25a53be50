"""A Pulumi program that registers the same teams in resources of different grain.

`python -m bench.preview` runs and times it, and puts the repository on its import path.
"""

import os

import pulumi
import pulumi_kubernetes as kubernetes

from bench.teams import Grain, stack_of, team_objects
from muster.components.bundle import Bundle, BundleProvider, text
from muster.components.clusters.cluster import kubeconfig_of
from muster.components.context import KubernetesObject

GRAIN = Grain(os.environ["BENCH_GRAIN"])
CONTEXT = os.environ["BENCH_CONTEXT"]
STACK = stack_of(int(os.environ["BENCH_TEAMS"]))


def custom_resources(provider: kubernetes.Provider, *, only: frozenset[str] | None = None) -> None:
    """A resource for each object, as a plain program has it."""
    opts = pulumi.ResourceOptions(provider=provider)
    for teams in team_objects(STACK).values():
        for team, objects in teams.items():
            for body in objects:
                if only is None or body["kind"] in only:
                    KubernetesObject(f"{team}-{body['kind']}", body, opts=opts)


def bundles(provider: BundleProvider, grain: Grain) -> None:
    opts = pulumi.ResourceOptions(provider=provider)
    tree = team_objects(STACK)
    if grain is Grain.BUNDLE_PER_TEAM:
        for teams in tree.values():
            for team, objects in teams.items():
                Bundle(team, manifests={team: text(objects)}, opts=opts)
        return
    texts = {
        department: {team: text(objects) for team, objects in teams.items()}
        for department, teams in tree.items()
    }
    if grain is Grain.BUNDLE_PER_DEPARTMENT:
        for department, manifests in texts.items():
            Bundle(department, manifests=manifests, opts=opts)
        return
    Bundle(
        "teams",
        manifests={team: each for manifests in texts.values() for team, each in manifests.items()},
        opts=opts,
    )


config, _ = kubeconfig_of(CONTEXT, stack_path="BENCH_CONTEXT")
match GRAIN:
    case Grain.NOTHING:
        pass
    case Grain.RESOURCE_PER_QUEUE:
        custom_resources(
            kubernetes.Provider("k", kubeconfig=config), only=frozenset({"ClusterQueue", "LocalQueue"})
        )
    case Grain.RESOURCE_PER_OBJECT:
        custom_resources(kubernetes.Provider("k", kubeconfig=config))
    case _:
        bundles(BundleProvider("b", kubeconfig=config, context=CONTEXT), GRAIN)
