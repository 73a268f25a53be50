"""QueueTree: the queues as the webhooks need them, in one versioned object of the cluster.

A webhook cannot query the cluster while it answers, and a scheduler's own objects do not contain which
namespace may use what. The Pulumi program writes this object, and the webhook server caches it.

    tree.py      the object as data        crd.py       its definition
    manifest.py  data -> object            reader.py    object -> data
"""

from muster.model.queuetree.tree import ANY_POOL, Limits, Queue, QueueTree, Space, crd, from_spec, to_manifest

__all__ = ["ANY_POOL", "Limits", "Queue", "QueueTree", "Space", "crd", "from_spec", "to_manifest"]
