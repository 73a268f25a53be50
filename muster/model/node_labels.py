"""The labels and the taint that the nodes of an EKS pool carry, whatever makes them."""

from muster.model import gpu_operator, names
from muster.model.clusters import EksCluster
from muster.model.pools import Pool


def node_labels(pool: Pool, cluster: EksCluster) -> dict[str, str]:
    """The last one is how cluster-autoscaler knows a node whose GPUs are not advertised yet: it waits there
    for nvidia.com/gpu (cluster-autoscaler, cloudprovider/aws, GPULabel), so nodes of other accelerators have
    none.
    """
    found = {**pool.labels, names.POOL_LABEL: pool.name, **gpu_operator.node_labels(pool, cluster)}
    gpu = pool.accelerator if pool.is_nvidia else None
    return found | ({names.EKS_GPU_LABEL: gpu.name} if gpu else {})
