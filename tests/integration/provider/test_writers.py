"""What another program writes of an object goes with the annotation that lets it (muster.dev/writer)."""

import asyncio
import json
from typing import Any, Final

from muster.kubernetes.kubeconfig import load_access
from muster.model.names import WRITER_ANNOTATION
from muster.provider.api import Cluster, Deadline
from muster.provider.resource import write
from tests.integration.conftest import ApiServer

_PATH: Final = "/api/v1/namespaces/default/configmaps/shared"
_OTHERS: Final = "muster-budgets"


def _body(**data: str) -> dict[str, Any]:
    meta = {"name": "shared", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _of_stack(writer: str) -> dict[str, str]:
    body = _body(stack="x")
    if writer:
        body["metadata"]["annotations"] = {WRITER_ANNOTATION: writer}
    return {"team": json.dumps([body])}


def test_what_a_second_writer_has_written_goes_when_the_stack_names_it_no_more(api_server: ApiServer) -> None:
    access = load_access(str(api_server.admin), None)

    async def put(manifests: dict[str, str], before: dict[str, str]) -> None:
        async with Cluster(access) as cluster:
            written = await write(
                cluster,
                manifests,
                before=before,
                state={},
                deadline=Deadline(60),
                log_status=lambda _: None,
            )
            assert written.failures == ()

    def shared() -> dict[str, str]:
        found: dict[str, str] = api_server.call("GET", _PATH)["data"]
        return found

    with_writer, alone = _of_stack(_OTHERS), _of_stack("")
    asyncio.run(put(with_writer, {}))
    theirs = f"{_PATH}?fieldManager={_OTHERS}"
    api_server.call("PATCH", theirs, _body(held="yes"), content_type="application/apply-patch+yaml")
    asyncio.run(put(with_writer, with_writer))
    assert shared() == {"stack": "x", "held": "yes"}
    asyncio.run(put(alone, with_writer))
    assert shared() == {"stack": "x"}
    api_server.call("DELETE", _PATH)
