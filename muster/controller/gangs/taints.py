"""Sets and takes away one taint of ours on nodes, and leaves every other taint as it is."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from msgspec import field

from muster.controller.gangs.objects import NODE, Node
from muster.controller.kube.client import Client
from muster.controller.kube.errors import Conflict, NotFound
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.model.names import BROKEN_TAINT_KEY, HELD_TAINT_KEY

Json = Mapping[str, Any]

TRIES: Final = 4
"""Others write on a node just when a gang gets it: the node controller and Karpenter, once or twice each."""


class _Spec(Partial, frozen=True):
    taints: tuple[dict[str, Any], ...] = ()


class _Tainted(Object, frozen=True):
    """A node with its taints whole: a patch replaces the list."""

    spec: _Spec = field(default_factory=_Spec)


_LIVE = Resource("", "v1", "nodes", "Node", False, _Tainted)


def closed_for(node: Node) -> str:
    """The value of the taint by which we closed a broken node; empty where we did not."""
    return node.taint_value(BROKEN_TAINT_KEY)


class NodeTaints:
    """`remember` puts what a write returned into the cache of nodes. `key`: which of our taints it is."""

    def __init__(
        self, client: Client, *, remember: Callable[[Node], object], key: str = HELD_TAINT_KEY
    ) -> None:
        self._client, self._remember, self._key = client, remember, key
        self._log = structlog.get_logger("taints")

    def of_broken(self) -> "NodeTaints":
        """The same for the taint that closes broken nodes."""
        return NodeTaints(self._client, remember=self._remember, key=BROKEN_TAINT_KEY)

    async def hold(self, node: str, *, held_as: str, effect: str = "NoSchedule") -> None:
        """With this value of the taint."""
        taint = {"key": self._key, "value": held_as, "effect": effect}
        await self._write(node, taint, instead_of=None)

    async def release(self, node: str, *, held_as: str) -> None:
        """Take it away, if it still has this value."""
        await self._write(node, None, instead_of=held_as)

    async def _write(self, node: str, taint: Json | None, *, instead_of: str | None) -> None:
        """On the node as it is, again where another client has written it meanwhile: a conflict would end the
        writes on the gang's other nodes as well.
        """
        for left in reversed(range(TRIES)):
            try:
                await self._once(node, taint, instead_of=instead_of)
            except NotFound:
                return
            except Conflict:
                if not left:
                    raise
            else:
                return

    async def _once(self, node: str, taint: Json | None, *, instead_of: str | None) -> None:
        live = await self._client.get(_LIVE, Key("", node))
        before = list(live.spec.taints)
        if instead_of is not None and not any(self._is_for(each, instead_of) for each in before):
            return
        others = [each for each in before if each.get("key") != self._key]
        after = [*others, taint] if taint else others
        if after == before:
            return
        # With the version that was read: a taint that another client adds meanwhile is not lost.
        meta = {"resourceVersion": live.metadata.resource_version, "uid": live.metadata.uid}
        body = {"metadata": meta, "spec": {"taints": after or None}}
        written = await self._client.merge_patch(NODE, Key("", node), body)
        self._remember(written)
        self._log.info(
            "held" if taint else "released", node=node, held_as=(taint or {}).get("value", instead_of)
        )

    def _is_for(self, taint: Json, held_as: str) -> bool:
        return taint.get("key") == self._key and taint.get("value", "") == held_as
