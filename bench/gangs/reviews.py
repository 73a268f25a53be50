"""How fast our webhooks answer at a steady rate: the time of each review from when it was due. Whole objects
over TLS on kept connections, as an API server asks.
"""

import asyncio
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.gangs.figures import percentile
from bench.gangs.shapes import POOL, Shape, stack_of
from bench.gangs.stage import StageError, await_, bare_stage, program
from bench.gangs.usage import usage
from bench.gangs.variants import Contender
from bench.steady_rate import Server, request, send
from muster.model import names, queuetree
from muster.model.stack import GangMode
from muster.render import queuetree as rendered
from tests.envtest import Programs, path_of
from tests.envtest.process import free_port

_SHAPE: Final = Shape(cohorts=5, queues=6)
_SERVICE: Final = f"gang-admission-webhooks.{names.SYSTEM_NAMESPACE}.svc"
_WARM_UP: Final = 100


def webhooks(programs: Programs, *, rate: float, seconds: float) -> dict[str, float]:
    """Figures of the webhook program at `rate` reviews of RayJobs a second, by name."""
    health, port = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        bare_stage(Path(folder), programs, Contender(GangMode.MUSTER, is_tuned=False), _SHAPE) as stage,
    ):
        stage.plane.define([queuetree.crd()])
        tree = json.loads(json.dumps(rendered.tree(stack_of(_SHAPE))))
        stage.plane.apply(tree, path_of(tree))
        with (
            program(stage.plane, "manager"),
            program(stage.plane, "webhooks", f"--webhook-port={port}", health=health) as process,
        ):
            await_(lambda: _is_listening(port), "the webhooks answer")
            before = usage(process.pid or 0)
            taken = asyncio.run(_ask(port, rate=rate, count=int(rate * seconds)))
            used = usage(process.pid or 0).since(before)
    return {
        "reviews a second": rate,
        "reviews": len(taken),
        "p50, ms": 1000 * percentile(taken, 50),
        "p99, ms": 1000 * percentile(taken, 99),
        "slowest, ms": 1000 * max(taken),
        "CPU a review, ms": 1000 * used.cpu / len(taken),
        "peak memory, MiB": used.peak / 2**20,
    }


async def _ask(port: int, *, rate: float, count: int) -> list[float]:
    """Seconds of each review."""
    review = request("POST", "/validate-rayjob", json.dumps(_review()).encode(), Host=_SERVICE)
    server = Server(port=port, name=_SERVICE, tls=_unchecked())
    answers = await send(server, [review] * (_WARM_UP + count), rate=rate, warm_up=_WARM_UP)
    for answer in answers:
        if b'"allowed":true' not in answer.body:
            said = answer.body.decode()[:500]
            raise StageError(f"a webhook refused an object that it should admit: {said}")
    return [answer.seconds for answer in answers]


def _unchecked() -> ssl.SSLContext:
    """The certificate is of the program's own authority, which is not what is measured."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _is_listening(port: int) -> bool:
    async def connected() -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True

    return asyncio.run(connected())


def _review() -> dict[str, Any]:
    """A RayJob with a head and two groups of workers on GPUs, as a user would write it."""
    groups = [{"groupName": f"workers-{number}", "replicas": 2, **_pods(gpu=True)} for number in (1, 2)]
    cluster = {"rayVersion": "2.54.0", "headGroupSpec": _pods(gpu=False), "workerGroupSpecs": groups}
    spec = {"entrypoint": "python train.py", "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    meta = {"name": "train", "namespace": _SHAPE.teams[0], "labels": {names.QUEUE_LABEL: "default"}}
    kind = {"group": "ray.io", "version": "v1", "kind": "RayJob"}
    request = {
        "uid": "0f8fad5b-d9cb-469f-a165-70867728950e",
        "kind": kind,
        "operation": "CREATE",
        "name": "train",
        "namespace": _SHAPE.teams[0],
        "userInfo": {"username": "user", "groups": ["system:authenticated"]},
        "object": {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _pods(*, gpu: bool) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "2Gi"} | ({names.GPU_RESOURCE: "1"} if gpu else {})
    pod = {
        "nodeSelector": {names.POOL_LABEL: POOL if gpu else "cpu"},
        "tolerations": [{"key": names.GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "ray",
                "image": "rayproject/ray:2.54.0",
                "resources": {"limits": amounts, "requests": amounts},
            }
        ],
    }
    return {"rayStartParams": {}, "template": {"spec": pod}}
