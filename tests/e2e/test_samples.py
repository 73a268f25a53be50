"""Published samples of KubeRay and Kueue run on the local cluster, with one label added on the command line.

On demand: `MUSTER_SAMPLES=1 python -m pytest tests/e2e/test_samples.py`, one of them with
`-k ray-cluster.head-command`. Which samples fit stack `local` is recorded in
tests/integration/tenancy/samples.yaml; those of KubeRay are in its Go module, and Kueue's are read where
`shared/data` beside the checkout has them.

A member of team-a creates each as it was published, with the label of the queue. Because the local cluster
has no registry, images are replaced, and nothing else: Ray's by the Ray that is built here, Fluent Bit's by a
program that waits, agnhost's by a Python with a shell. A namespace that the file names is left out, as
kubectl demands where another one is given.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from muster.local.demo.cluster import Object
from muster.model import names
from muster.model.work import BY_KIND, SERVED
from tests.e2e import gangs
from tests.e2e.local_cluster import ROOT, Muster, run
from tests.integration.tenancy.samples import TEAM, WORK, folders, recorded

pytestmark = pytest.mark.skipif(
    not {"MUSTER_SAMPLES", "MUSTER_WHOLE"} & set(os.environ), reason="minutes each: set MUSTER_SAMPLES=1"
)
AUTHOR: Final = "author"
# The beginning of a published image -> the local cluster's own.
IMAGES: Final = {
    "rayproject/ray:": "ray",
    "fluent/fluent-bit:": "pause",
    "registry.k8s.io/e2e-test-images/agnhost:": "python",
}
# What GKE's documentation has the reader prepare for a bucket: nodes with Workload Identity, and an account.
WORKLOAD_IDENTITY: Final = "iam.gke.io/gke-metadata-server-enabled"
ACCOUNT: Final = "my-ksa"
NEEDS_IDENTITY: Final = "ray-cluster.gke-bucket.yaml"
# Its packages and its data come from the internet, which the local cluster does not have.
ONLINE: Final = "ray-job.modin.yaml"
_FIRST_ROUND: Final = 3
_RBAC: Final = "rbac.authorization.k8s.io"


def _fitting() -> Iterator[Any]:
    known = folders()
    for publisher, entries in recorded().items():
        absent = pytest.mark.skipif(
            publisher not in known, reason=f"the samples of {publisher} are not on this machine"
        )
        for name in (name for name, entry in entries.items() if entry.get("fits")):
            file, _, title = name.partition(": ")
            if BY_KIND[title.partition(" ")[0]].family not in SERVED:
                continue  # The local cluster has no controller of it.
            title = file.rpartition("/")[2].removesuffix(".yaml")
            yield pytest.param(publisher, file, id=title, marks=absent)


@pytest.mark.parametrize(("publisher", "file"), list(_fitting()))
def test_a_published_sample_runs_with_one_label(muster: Muster, publisher: str, file: str) -> None:
    """A RayCluster is ready. A Job runs with all its pods, and its first ones have succeeded: 100 of a minute
    each take half an hour. A RayJob has succeeded; the one that needs the internet is handed to Ray.
    """
    bodies = _labelled(publisher, file)
    for body in bodies:
        _replace_images(muster, body)
    (work,) = (each for each in bodies if each["kind"] in WORK)
    kind, name = work["kind"], work["metadata"]["name"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    prepared = _prepared(file)
    for each in prepared:
        muster.cluster.apply(each)
    if file == NEEDS_IDENTITY:
        _label_node(muster, "true")

    _as_author(muster, "delete", text, "--ignore-not-found")  # what an earlier run left of it
    _as_author(muster, "create", text)
    muster.wait(f"{kind} {name} has run", _goal(muster, file, kind, name), seconds=900)

    assert gangs.workload(muster.recorder, name).last["spec"]["queueName"] == names.DEFAULT_LOCAL_QUEUE
    if kind == "RayJob" and file != ONLINE:
        assert gangs.status(muster.recorder, kind, name)["jobStatus"] == "SUCCEEDED"
    # What has failed stays until its state is printed; the next test removes it.
    _as_author(muster, "delete", text)
    for each in prepared:
        muster.cluster.delete(each["kind"], each["metadata"]["name"], namespace=TEAM)
    if file == NEEDS_IDENTITY:
        _label_node(muster, None)


def _goal(muster: Muster, file: str, kind: str, name: str) -> Callable[[], object]:
    record = muster.recorder
    match kind:
        case "RayCluster":
            return lambda: gangs.is_ready(record, name)
        case "RayJob" if file == ONLINE:
            return lambda: gangs.status(record, kind, name).get("jobStatus")
        case "RayJob":
            over = ("Complete", "Failed")
            return lambda: gangs.status(record, kind, name).get("jobDeploymentStatus") in over
        case _:
            return lambda: gangs.status(record, kind, name).get("succeeded", 0) >= _FIRST_ROUND


def _labelled(publisher: str, file: str) -> list[Object]:
    """By the documented command, without a cluster. Of what it prints, what a member may create: queues and
    the like are the platform's.
    """
    label = f"{names.QUEUE_LABEL}={names.DEFAULT_LOCAL_QUEUE}"
    path = str(folders()[publisher] / file)
    command = ["kubectl", "label", "--local", "--overwrite", "-f", path, label, "-o", "json"]
    rest = run(command, {**os.environ, "KUBECONFIG": os.devnull}, timeout=60).strip()
    found: list[Object] = []
    while rest:
        body, end = json.JSONDecoder().raw_decode(rest)
        rest = rest[end:].strip()
        if body["kind"] in (*WORK, "ConfigMap"):
            body["metadata"].pop("namespace", None)
            found.append(body)
    return found


def _replace_images(muster: Muster, body: Any) -> None:
    """In every container, wherever the kind has its pod templates."""
    match body:
        case {"image": str(image)}:
            (local,) = (local for published, local in IMAGES.items() if image.startswith(published))
            body["image"] = muster.image(local)
        case dict():
            for each in body.values():
                _replace_images(muster, each)
        case list():
            for each in body:
                _replace_images(muster, each)


def _as_author(muster: Muster, verb: str, text: str, *arguments: str) -> None:
    done = subprocess.run(
        ["kubectl", "--namespace", TEAM, f"--as={AUTHOR}", verb, "-f", "-", *arguments],
        cwd=ROOT,
        env=muster.environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    print(f"kubectl {verb} as {AUTHOR}: {done.stdout}{done.stderr}", flush=True)
    assert done.returncode == 0, done.stderr


def _prepared(file: str) -> list[Object]:
    """The author is a member of the team, and nothing more."""
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": names.MEMBER_ROLE}
    found: list[Object] = [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "samples", "namespace": TEAM},
            "roleRef": role,
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": AUTHOR}],
        }
    ]
    if file == NEEDS_IDENTITY:
        found.append(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": TEAM}}
        )
    return found


def _label_node(muster: Muster, value: str | None) -> None:
    """The node of pool cpu, as GKE labels each node of a cluster with Workload Identity."""
    (node,) = (
        each["metadata"]["name"]
        for each in muster.cluster.all("Node")
        if each["metadata"]["labels"].get(names.POOL_LABEL) == "cpu"
    )
    muster.cluster.patch("Node", node, {"metadata": {"labels": {WORKLOAD_IDENTITY: value}}})
