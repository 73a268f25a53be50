"""Whatever a job asks for: one of which a group fits in no pool is not admitted, with either scheduler."""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.names import DEVICE_RESOURCES
from tests.unit.check.stacks import Json, judged, pod, ray_job, refusals

SELECTORS: list[dict[str, str]] = [
    {},
    *({"muster.dev/pool": pool} for pool in ("cpu", "l4", "h100", "b200")),
    {"cloud.google.com/gke-accelerator": "nvidia-l4"},
    {"cloud.google.com/gke-accelerator": "nvidia-b200"},
    {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"},
    {"node.kubernetes.io/instance-type": "g6.12xlarge"},
    {"node.kubernetes.io/instance-type": "a3-highgpu-8g"},
    {"topology.kubernetes.io/zone": "us-east-1a"},
    {"kubernetes.io/arch": "arm64"},
    {"muster.dev/pool": "l4", "cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
]


@st.composite
def templates(draw: st.DrawFn) -> Json:
    found = pod(nodeSelector=draw(st.sampled_from(SELECTORS)))
    limits = found["spec"]["containers"][0]["resources"]["limits"]
    limits["cpu"] = draw(st.sampled_from(["1", "8", "30", "100", "300"]))
    limits["memory"] = draw(st.sampled_from(["1Gi", "100Gi", "900Gi", "9000Gi"]))
    if devices := draw(st.sampled_from([0, 1, 4, 8, 16])):
        limits[draw(st.sampled_from(sorted(DEVICE_RESOURCES)))] = devices
    if draw(st.booleans()):
        found["spec"]["tolerations"] = [{"operator": "Exists"}]
    return found


@settings(deadline=None)
@given(
    cloud=st.sampled_from(["gke", "eks"]),
    queue=st.sampled_from(["", "vision-l4", "vision-h100"]),
    workers=st.lists(templates(), min_size=1, max_size=2),
    replicas=st.sampled_from([1, 2, 5, 40]),
)
def test_what_is_admitted_fits(cloud: str, queue: str, workers: list[Json], replicas: int) -> None:
    job = ray_job(*workers, replicas=replicas)
    if queue:
        job["metadata"]["labels"] = {"kai.scheduler/queue": queue}
    found = judged(job, cloud, "kai" if queue else "kueue")
    nowhere = [each.name for each in found.demands if all(place.reason for place in each.places)]
    assert not (nowhere and found.answer.is_admitted), [each.places for each in found.demands]
    assert found.answer.is_admitted or refusals(found)
