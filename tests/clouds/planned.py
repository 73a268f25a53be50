"""What a change of a stack file does to the cloud, without an engine: what the program registers before and
after, compared as the stand-in providers compare it.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import pulumi

from muster import config
from muster.components.clusters.cluster import cluster_of
from muster.components.context import Identities, IdentitiesArgs
from muster.components.gang_admission import image_repository
from muster.components.program import deletion_guard
from tests.clouds.standin.changes import changes, covers
from tests.clouds.standin.tables import TABLES
from tests.clouds.standin.values import plain
from tests.mocks.recorder import Registered, run

Place = tuple[str, str]


# A pool of several zones of AWS is a group in each of them.
_ZONE: Final = re.compile(r"-[a-z]{2}-[a-z]+-\d[a-z]\Z")


class Fate(StrEnum):
    """What becomes of a resource, the least weighty first."""

    UPDATE = "update"
    CREATE = "create"
    DELETE = "delete"
    REPLACE = "replace"


def pool_of(name: str) -> str:
    """The name of a group of a pool without its zone, where it has one."""
    return _ZONE.sub("", name)


def registered(stack: Path) -> Mapping[Place, Registered]:
    """(type, name) -> the resources of the clouds that the program asks for."""
    described = config.load(stack)

    def program() -> None:
        image_repository(described.cluster)
        cluster = cluster_of(described, opts=pulumi.ResourceOptions())
        assert isinstance(cluster, pulumi.Resource)
        deletion_guard(
            described.cluster,
            cluster,
            Identities("identities", IdentitiesArgs(stack=described, cloud=cluster.cloud)),
        )

    return {(each.type, each.name): each for each in run(program).resources if each.type in TABLES}


def fates(before: Mapping[Place, Registered], after: Mapping[Place, Registered]) -> dict[Place, Fate]:
    """What changes, and how."""
    found = dict.fromkeys(before.keys() - after.keys(), Fate.DELETE)
    found |= dict.fromkeys(after.keys() - before.keys(), Fate.CREATE)
    for place in before.keys() & after.keys():
        if (fate := _fate(before[place], after[place])) is not None:
            found[place] = fate
    return found


def _fate(before: Registered, after: Registered) -> Fate | None:
    table = TABLES[before.type]
    ignored = sorted(after.ignore_changes)
    found = changes(table, plain(before.inputs), plain(after.inputs), ignored=ignored)
    if not found:
        return None
    asked = sorted(after.replace_on_changes)
    is_new = any(each.replaces or covers(asked, path) for path, each in found.items())
    return Fate.REPLACE if is_new else Fate.UPDATE
