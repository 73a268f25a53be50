"""The queues that jobs are played in: those of a stack (muster/preview/replay/queues.py), or of a cluster."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

from muster.live.fields import mapping, text, texts
from muster.live.kueue_tree import read_tree
from muster.model import names
from muster.model.kueue.tree import Tree
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.replay.player import Manifest
from muster.replay.provisioning import NodePool

# Whether a cloud has capacity cannot be known.
_CHECKS: Final = "admissionChecksStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPool:
    """A pool as its ResourceFlavor describes it (provisioning.NodePool)."""

    name: str
    flavor: str
    is_gpu: bool


@dataclass(frozen=True, kw_only=True)
class Queues:
    """`objects` and `config` are what Kueue decides by. `teams`: by namespace, and by name for lists that
    know no namespaces. `priorities`: name -> value; a name that is missing has the value that was recorded.
    `pools`: for lists that name pools, and to say which part of a quota without a bound is real; a cluster
    has none.
    """

    objects: Sequence[Manifest]
    config: Manifest
    teams: Mapping[str, Team]
    priorities: Mapping[str, int] = field(default_factory=dict)
    pools: Sequence[Pool] = ()

    @cached_property
    def cluster_queues(self) -> Mapping[tuple[str, str], str]:
        """(namespace, name) of each LocalQueue -> its ClusterQueue."""
        return {
            (text(each, "metadata", "namespace"), text(each, "metadata", "name")): text(
                each, "spec", "clusterQueue"
            )
            for each in self.objects
            if each["kind"] == "LocalQueue"
        }

    @cached_property
    def tree(self) -> Tree:
        """The ClusterQueues and Cohorts."""
        return read_tree(self.objects, self.pools)

    @cached_property
    def node_pools(self) -> Sequence[NodePool]:
        """The pools of the stack, or else those that the flavors name."""
        return self.pools or [*_flavor_pools(self.objects, self.tree)]


def of_cluster(objects: Iterable[Mapping[str, object]], config: Manifest) -> Queues:
    """Of the Namespaces, ResourceFlavors, Cohorts, ClusterQueues and LocalQueues that a cluster has. Labels
    of the LocalQueues name the teams; a namespace without one is a team of its own.
    """
    played = [_plain(each) for each in objects]
    return Queues(objects=played, config=config, teams=_teams(played))


def _teams(objects: Iterable[Manifest]) -> dict[str, Team]:
    queues = (each["metadata"] for each in objects if each["kind"] == "LocalQueue")
    spaces: defaultdict[str, list[str]] = defaultdict(list)
    for each in sorted(queues, key=itemgetter("namespace")):
        team = each["labels"].get(names.TEAM_LABEL, each["namespace"])
        if each["namespace"] not in spaces[team]:
            spaces[team].append(each["namespace"])
    teams = (
        Team(name=name, namespace=first, further_namespaces=tuple(others))
        for name, (first, *others) in spaces.items()
    )
    return {space: team for team in teams for space in team.namespaces}


def _flavor_pools(objects: Sequence[Manifest], tree: Tree) -> Iterator[FlavorPool]:
    counted = {flavor.name for node in tree.nodes.values() for flavor in node.flavors if flavor.gpus}
    for each in objects:
        if each["kind"] == "ResourceFlavor":
            flavor = text(each, "metadata", "name")
            pool = texts(each, "spec", "nodeLabels").get(names.POOL_LABEL, flavor)
            yield FlavorPool(name=pool, flavor=flavor, is_gpu=flavor in counted)


def _plain(found: Mapping[str, object]) -> dict[str, Any]:
    """What Kueue decides by, without checks."""
    kept = ("name", "namespace", "uid")
    head = {key: value for key in kept if (value := text(found, "metadata", key))}
    spec = {key: value for key, value in mapping(found, "spec").items() if key != _CHECKS}
    return {
        "apiVersion": text(found, "apiVersion"),
        "kind": text(found, "kind"),
        "metadata": {**head, "labels": texts(found, "metadata", "labels")},
        "spec": spec,
    }
