"""Our webhooks, called by a real API server through their Service: what no node or queue could ever hold is
refused. test_never_starts.py shows what would become of it.
"""

import json
import urllib.error
from collections.abc import Iterator

import pytest

from tests.integration.kueue_api.works import PATHS, Object, plain, with_gpu, work
from tests.integration.kueue_api.world import MERGE, World
from tests.waiting import eventually


@pytest.fixture(scope="module")
def reviewed(_shared_world: World) -> Iterator[World]:
    def is_reviewed() -> bool:
        return all(_refusal(_shared_world, work(kind, plain(cpu="3"))) for kind in PATHS)

    with _shared_world.webhooks():
        # Until then the API server lets everything pass: it reads configurations when it gets to them.
        eventually("the API server asks our webhooks", is_reviewed)
        yield _shared_world


def _refusal(world: World, body: Object) -> str:
    """What is said against it; empty when it would be taken."""
    try:
        world.plane.call("POST", f"{PATHS[body['kind']]}?dryRun=All", body)
    except urllib.error.HTTPError as refused:
        return str(json.loads(refused.read())["message"])
    return ""


@pytest.mark.parametrize("kind", PATHS)
def test_what_fits_is_taken(reviewed: World, kind: str) -> None:
    assert _refusal(reviewed, work(kind, plain())) == ""
    assert _refusal(reviewed, work(kind, with_gpu("l4"), count=20)) == ""


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize(
    ("spec", "count", "words"),
    [
        (plain(cpu="3"), 1, ("asks for cpu 3", "(cpu: 2)", "ask for less")),
        (plain(memory="4Gi"), 1, ("asks for memory 4Gi", "(cpu: 3Gi)")),
        (with_gpu("l4", cpu="2"), 1, ("asks for cpu 2", "(l4: 1)")),
        (plain(cpu="1500m"), 2, ("needs 2 nodes", "(cpu: 1)")),
        (with_gpu("l4"), 21, ("asks for 21 GPUs of pool l4", "can hold at most 20", "quota raised")),
        (with_gpu("l4", cpu="1"), 41, ("needs 41 nodes", "(l4: 40)")),
        (plain(**{"example.com/fpga": "1"}), 1, ("example.com/fpga", "has no quota", "remove")),
        (plain(**{"hugepages-2Mi": "2Mi"}), 1, ("hugepages-2Mi", "has no quota")),
        (plain(**{"ephemeral-storage": "1Gi"}), 1, ("ephemeral-storage", "has no quota")),
        ({**with_gpu("l4"), "tolerations": []}, 1, ("nvidia.com/gpu", "tolerations")),
    ],
    ids=[
        "CPU of a node",
        "memory of a node",
        "CPU of a GPU node",
        "nodes of a pool",
        "GPUs of the queue",
        "GPU nodes of a pool",
        "a device",
        "huge pages",
        "disk",
        "no toleration",
    ],
)
def test_what_can_never_start_is_refused_with_the_figure_and_the_fix(
    reviewed: World, kind: str, spec: Object, count: int, words: tuple[str, ...]
) -> None:
    said = _refusal(reviewed, work(kind, spec, count=count))
    for word in ("would never run", *words):
        assert word in said, said


@pytest.mark.parametrize("kind", PATHS)
def test_work_that_waits_is_not_changed_into_what_can_never_start(reviewed: World, kind: str) -> None:
    body = work(kind, plain())
    body["metadata"]["name"] = "waits"
    path = f"{PATHS[kind]}/waits"
    found = reviewed.plane.call("POST", PATHS[kind], body)
    try:
        # The template of a Job is immutable.
        large = {"parallelism": 41} if kind == "Job" else work(kind, plain(cpu="3"))["spec"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            reviewed.plane.call("PUT", f"{path}?dryRun=All", {**found, "spec": {**found["spec"], **large}})
        why = "needs 3 nodes" if kind == "Job" else "asks for cpu 3"
        assert why in refused.value.read().decode()
        label = {"metadata": {"labels": {"any": "change"}}}
        reviewed.plane.call("PATCH", f"{path}?dryRun=All", label, content_type=MERGE)
    finally:
        reviewed.delete(path)
