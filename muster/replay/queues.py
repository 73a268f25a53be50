"""The queues that jobs are played in: those of a stack (muster/preview/replay/queues.py), or of a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from muster.live.fields import mapping, text, texts
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.replay.player import Manifest

# Whether a cloud has capacity cannot be known.
_CHECKS: Final = "admissionChecksStrategy"


@dataclass(frozen=True, kw_only=True)
class Queues:
    """`objects` and `config` are what Kueue decides by. `teams`: by namespace, and by name for lists that
    know no namespaces. `priorities`: name -> value; a name that is missing has the value that was recorded.
    `pools`: for lists that name pools, and to say which part of a quota without a bound is real.
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


def of_cluster(objects: Iterable[Mapping[str, object]], config: Manifest) -> Queues:
    """Of the Namespaces, ResourceFlavors, Cohorts, ClusterQueues and LocalQueues that a cluster has. Each
    namespace is a team of its own.
    """
    played = [_plain(each) for each in objects]
    spaces = {text(each, "metadata", "namespace") for each in played if each["kind"] == "LocalQueue"}
    return Queues(
        objects=played,
        config=config,
        teams={space: Team(name=space, namespace=space) for space in sorted(spaces)},
    )


def _plain(found: Mapping[str, object]) -> dict[str, Any]:
    """What Kueue decides by, without checks."""
    kept = ("name", "namespace", "uid")
    names = {key: value for key in kept if (value := text(found, "metadata", key))}
    spec = {key: value for key, value in mapping(found, "spec").items() if key != _CHECKS}
    return {
        "apiVersion": text(found, "apiVersion"),
        "kind": text(found, "kind"),
        "metadata": {**names, "labels": texts(found, "metadata", "labels")},
        "spec": spec,
    }
