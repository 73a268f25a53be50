"""A cloud's stack on the local cluster: `up`, the pools that it requested from the cloud, `destroy`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from muster import config
from muster.local.simulated_cloud import names
from muster.model import names as model_names
from muster.model.capacity import Capacity
from muster.model.clusters import Provider
from muster.model.node_labels import flavor_labels
from muster.model.stack import Stack
from tests.clouds.artifacts import completed
from tests.clouds.cluster.machines import NodePool, pools
from tests.clouds.engine import checkout, workspace
from tests.clouds.handed import handed
from tests.clouds.stack_files import edited
from tests.clouds.standin.serve import Clouds
from tests.e2e.local_cluster import Muster, run

# The program, but for one thing: no image of cluster-autoscaler can be had, so none is started.
_PROGRAM: Final = """\
import runpy

import pulumi


def without_foreign_images(args):
    if args.type_ == "kubernetes:apps/v1:Deployment" and args.name == "cluster-autoscaler-deployment":
        spec = {**args.props["spec"], "replicas": 0}
        return pulumi.ResourceTransformResult({**args.props, "spec": spec}, args.opts)


pulumi.runtime.register_resource_transform(without_foreign_images)
runpy.run_path(MAIN, run_name="__main__")
"""


@contextmanager
def on_local_cluster(muster: Muster, stack: Path, folder: Path) -> Iterator[Stack]:
    """The stack stands until the block ends, and the local cluster's cloud sells its queued pools."""
    server = handed(Path(muster.environment["KUBECONFIG"]))
    edits = {"muster:artifacts": "local", "muster:cluster.protect": False}
    project = checkout(folder / "project", edited(stack, folder / stack.name, edits))
    _wrap(project / "__main__.py")
    with Clouds().serving() as clouds:
        server.to(clouds)
        engine = workspace(
            folder / "engine", project, stack.stem.removeprefix("Pulumi."), dict(clouds.environment)
        )
        engine.environment |= server.environment(folder, engine.environment["PATH"])
        engine.environment["MUSTER_ARTIFACTS"] = str(
            completed(Path(muster.environment["MUSTER_ARTIFACTS"]), folder)
        )
        described = config.load(stack)
        with _kind_of_requests(muster, described):
            engine.up()
            try:
                with _labelled(muster, described), _sold(muster, described, clouds):
                    yield described
            finally:
                engine.destroy()
        assert not clouds.gcp.standing
        assert not clouds.aws.standing


@contextmanager
def _kind_of_requests(muster: Muster, stack: Stack) -> Iterator[None]:
    """GKE's clusters serve ProvisioningRequests from the start; into others the stack brings the kind."""
    if stack.cluster.provider is not Provider.GKE:
        yield
        return
    file = json.loads(Path(muster.environment["MUSTER_ARTIFACTS"]).read_text())["crds"][
        "provisioningrequests"
    ]
    run(["kubectl", "apply", "--server-side", "-f", file], muster.environment, timeout=60)
    yield
    run(["kubectl", "delete", "-f", file], muster.environment, timeout=60)


def _wrap(main: Path) -> None:
    real = str(main.resolve())
    main.unlink()
    main.write_text(_PROGRAM.replace("MAIN", repr(real)))


@contextmanager
def _labelled(muster: Muster, stack: Stack) -> Iterator[None]:
    """The nodes of its other pools, which stand already, have the labels that the cloud gives to them."""
    found = flavor_labels(stack)
    pools = [pool.name for pool in stack.pools if pool.capacity is not Capacity.QUEUED]
    labels = {pool: set(found.get(pool, {}).items()) - {(model_names.POOL_LABEL, pool)} for pool in pools}

    def label(pool: str, words: Iterable[str]) -> None:
        of_pool = f"{model_names.POOL_LABEL}={pool}"
        run(["kubectl", "label", "node", "-l", of_pool, *words], muster.environment, timeout=60)

    given = {pool: pairs for pool, pairs in labels.items() if pairs}
    for pool, pairs in given.items():
        label(pool, (f"{key}={value}" for key, value in pairs))
    try:
        yield
    finally:
        for pool, pairs in given.items():
            label(pool, (f"{key}-" for key, _ in pairs))


@contextmanager
def _sold(muster: Muster, stack: Stack, clouds: Clouds) -> Iterator[None]:
    """The local cluster's autoscaler reads its pools anew when they change."""
    where = {"namespace": names.NAMESPACE}
    before = muster.cluster.get("ConfigMap", names.POOLS_CONFIG, **where) or {}
    now = {"data": {names.POOLS_KEY: yaml.safe_dump(_offering(stack, clouds))}}
    muster.cluster.patch("ConfigMap", names.POOLS_CONFIG, now, **where)
    try:
        yield
    finally:
        muster.cluster.patch("ConfigMap", names.POOLS_CONFIG, {"data": before["data"]}, **where)


def _offering(stack: Stack, clouds: Clouds) -> dict[str, Any]:
    classes = {
        pool.name: str(pool.provisioning_class) for pool in stack.pools if pool.capacity is Capacity.QUEUED
    }
    labels = flavor_labels(stack)
    sold = [_pool(each, classes[each.name], labels) for each in pools(clouds) if each.name in classes]
    # Nodes go soon, so that the next job has stock.
    return {"times": {"scaleDown": "5s", "scaleDownConsumed": "5s"}, "pools": sold}


def _pool(pool: NodePool, class_: str, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """With the labels that the cloud itself gives to its nodes. Its taints are those of the stack alone."""
    whole = {**labels[pool.name], **pool.labels}
    ours = {key: value for key, value in whole.items() if key != model_names.POOL_LABEL}
    return {
        "name": pool.name,
        "kind": "real",
        "labels": ours,
        "taints": [f"{each['key']}={each['value']}:{each['effect']}" for each in pool.taints],
        "queuedTaint": False,
        "gpus": pool.gpus,
        "cpu": "1",
        "memory": "2Gi",
        "maxNodes": pool.most,
        "stock": 2,
        "provisionDelay": "3s",
        "classes": [class_],
    }
