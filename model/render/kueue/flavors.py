"""ResourceFlavor of every pool.

Decides how Kueue tells pools apart: by the pool label, and GPU pools by their taint too. Leaves quotas to
groups.py.

The taint is what keeps a gang's CPU head on a CPU pool. A GPU flavor has CPU and memory quota as well, for
its GPU pods, and Kueue goes on to the next flavor whenever the CPU flavor is full. A flavor's `nodeTaints`
must be tolerated by the pod or by the flavor's own `tolerations`; if the flavor brought the toleration
itself, a CPU head would be put on a GPU pool as soon as the CPU pool is full, and there it would wait for a
node that nobody asks for. So a flavor brings none, and a GPU pod says in its template that it tolerates
`nvidia.com/gpu`.
"""

from model import names
from model.pools import Pool
from model.render.manifest import Manifest, kueue
from model.stack import Stack


def flavors(stack: Stack) -> list[Manifest]:
    return [kueue("ResourceFlavor", pool.name, spec=_spec(pool)) for pool in stack.pools]


def gpu_taint() -> dict[str, str]:
    return {"key": names.GPU_TAINT_KEY, "value": names.GPU_TAINT_VALUE, "effect": names.GPU_TAINT_EFFECT}


def _spec(pool: Pool) -> Manifest:
    spec: Manifest = {"nodeLabels": {names.POOL_LABEL: pool.name}}
    if pool.is_gpu:
        spec["nodeTaints"] = [gpu_taint()]
    return spec
