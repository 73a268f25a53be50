"""The queue tree: what a namespace's jobs may name, parsed once for each version of the object."""

from typing import Final

from muster.controller.gangs.objects import QueueTreeObject
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.names import QUEUE_TREE
from muster.model.queuetree import QueueTree, from_spec

_KEY: Final = Key("", QUEUE_TREE)


class QueueTreeCache:
    """The one QueueTree; an empty one while there is none, which judges nothing."""

    def __init__(self, trees: Informer[QueueTreeObject]) -> None:
        self._trees = trees
        self._version = ""
        self._read = QueueTree()

    def current(self) -> QueueTree:
        found = self._trees.get(_KEY)
        version = found.metadata.resource_version if found else ""
        if version != self._version:
            self._read = from_spec(found.spec) if found else QueueTree()
            self._version = version
        return self._read
