"""A stack goes over to Kueue's own check and back while gangs run and wait: none of them is stranded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from examples.moments import RETRY_AT, WORKLOAD_UID, condition, holds
from tests.e2e import gangs, light
from tests.e2e.plane import ROOT, Muster
from tests.e2e.recorder import Life

_LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"
OURS, THEIRS = "gang", "rayjob-gpu"


@pytest.fixture
def builtin_file(muster: Muster, tmp_path: Path) -> Iterator[Path]:
    """Stack `local` with Kueue's own check, named as in Ray's guide. After the test it is ours again."""
    stack = yaml.safe_load(_LOCAL.read_text())
    config = stack["config"]
    config["muster:gangAdmission"] = "builtin"
    for pool in ("l4", "h100"):
        named = {"check": THEIRS, "config": f"{THEIRS}-config"}
        config["muster:pools"][pool]["kueue"] = {"provisioning": named}
    path = tmp_path / "Pulumi.local.yaml"
    path.write_text(yaml.safe_dump(stack))
    yield path
    muster.heal()
    _switch(muster, _LOCAL)


def test_switching_to_kueues_own_check_and_back_strands_no_gang(muster: Muster, builtin_file: Path) -> None:
    record = muster.recorder
    # One gang waits outside the quota for its next try, another for what it has asked for.
    muster.fault("none", pool="l4", kind="stock-out")
    muster.fault("slow", pool="h100", kind="delay", by="600s")
    _submit(muster, "outside", namespace="team-b", pool="l4")
    _submit(muster, "asking", namespace="team-a", pool="h100")
    muster.wait("outside waits for its next try", lambda: _waits_outside(muster, "outside"))
    muster.wait("asking has asked", lambda: gangs.requests(record, "asking"))
    muster.heal()

    _switch(muster, builtin_file)

    for name in ("outside", "asking"):
        muster.wait(f"{name} runs", partial(gangs.is_ready, record, name), seconds=240)
        assert _checks(muster, name) == {THEIRS}
        assert all(_is_kueues(one) for one in gangs.requests(record, name) if one.gone is None)
    running = {one.uid for name in ("outside", "asking") for one in gangs.pods(record, name)}

    # And back, with work that runs under Kueue's check and work that waits under it.
    _delete(muster, "outside", namespace="team-b")
    muster.wait("l4 is free", lambda: not _nodes(muster, "l4"), seconds=180)
    muster.fault("slow", pool="l4", kind="delay", by="600s")
    _submit(muster, "third", namespace="team-b", pool="l4")
    muster.wait("Kueue has asked for third", lambda: gangs.requests(record, "third"))
    muster.heal()

    _switch(muster, _LOCAL)

    muster.wait("third runs", lambda: gangs.is_ready(record, "third"), seconds=240)
    assert _checks(muster, "third") == {OURS}
    assert not any(_is_kueues(one) for one in gangs.requests(record, "third") if one.gone is None)
    gangs.assert_capacity_came_first(record, "third", pools=["l4"])
    muster.wait("asking runs", lambda: gangs.is_ready(record, "asking"), seconds=240)
    still = {one.uid for one in gangs.pods(record, "asking") if one.gone is None}
    print("work that ran through the switch:", "kept its pods" if still <= running else "was started again")


def _switch(muster: Muster, file: Path) -> None:
    muster.pulumi("up", "--yes", "--skip-preview", "--stack", "local", "--config-file", str(file))


def _submit(muster: Muster, name: str, *, namespace: str, pool: str) -> None:
    image = muster.image("python")
    muster.cluster.apply(light.ray_cluster(name, namespace=namespace, image=image, workers={pool: 1}))


def _delete(muster: Muster, name: str, *, namespace: str) -> None:
    muster.cluster.delete("RayCluster", name, namespace=namespace)


def _waits_outside(muster: Muster, name: str) -> bool:
    try:
        last = gangs.workload(muster.recorder, name).last
    except StopIteration:
        return False
    return RETRY_AT in (last["metadata"].get("annotations") or {}) and last["spec"]["active"] is False


def _checks(muster: Muster, name: str) -> set[str]:
    last = gangs.workload(muster.recorder, name).last
    assert holds(last, "Admitted"), condition(last, "Admitted")
    return {each["name"] for each in last["status"].get("admissionChecks") or ()}


def _is_kueues(request: Life) -> bool:
    return WORKLOAD_UID not in (request.last["metadata"].get("labels") or {})


def _nodes(muster: Muster, pool: str) -> list[object]:
    return [node for node in muster.gpu_nodes() if node["metadata"]["labels"].get("muster.dev/pool") == pool]
