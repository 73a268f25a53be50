"""QueueTree: the queues as the webhooks need them, in one versioned object of the cluster.

A webhook cannot query the cluster while it answers, and a scheduler's own objects do not contain which
namespace may use what. The Pulumi program writes this object, and the webhook server caches it.

tree.py has the object as data, its definition, and both ways between data and object.
"""

from muster.model.queuetree.tree import ANY_POOL, Limits, Queue, QueueTree, Space, crd, from_spec, to_manifest

__all__ = ["ANY_POOL", "Limits", "Queue", "QueueTree", "Space", "crd", "from_spec", "to_manifest"]
