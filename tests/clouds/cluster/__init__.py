"""A Kubernetes cluster that a stand-in cloud hands out: everything real but the machines.

etcd, API server, controller manager, scheduler and Kueue are the real programs, as processes of the test. The
nodes are those of the node pools that stand in the cloud, with the labels and taints that the pools give
them; KWOK says that their pods run, and no container does.
"""

from tests.clouds.cluster.cluster import Standing, standing

__all__ = ["Standing", "standing"]
