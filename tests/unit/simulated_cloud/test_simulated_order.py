"""Two watches keep no order: a request may be seen before its template, and is not refused for that."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.api import POD_TEMPLATES, REQUESTS, Access, Api, Raw, Resource
from muster.local.simulated_cloud.app import SimulatedCloud
from muster.local.simulated_cloud.inventory import Machines

_REQUEST = {
    "metadata": {
        "namespace": "team-a",
        "name": "gang",
        "uid": "r",
        "resourceVersion": "2",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "provisioningClassName": names.QUEUED,
        "podSets": [{"podTemplateRef": {"name": "gang-0"}, "count": 1}],
    },
}
_TEMPLATE = {
    "metadata": {"namespace": "team-a", "name": "gang-0", "uid": "t", "resourceVersion": "1"},
    "template": {"spec": {"containers": [{"name": "main"}]}},
}


class Late(Api):
    """Lists the request; its template is there for who asks, and no list or watch of all has told of it."""

    def __init__(self, templates: list[Raw]) -> None:
        super().__init__(Access("http://nobody.invalid", None, None))
        self.said: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._templates = templates

    async def list(self, resource: Resource) -> tuple[list[Raw], str]:
        return ([_REQUEST] if resource is REQUESTS else []), "2"

    async def watch(self, resource: Resource, version: str) -> AsyncIterator[tuple[str, Raw]]:
        await asyncio.Event().wait()
        yield "", {}

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Raw:
        if method == "GET" and path == POD_TEMPLATES.path(namespace="team-a"):
            assert params == {"fieldSelector": "metadata.name=gang-0"}
            return {"items": self._templates}
        if path == REQUESTS.path("gang", namespace="team-a", sub="status") and not self.said.done():
            self.said.set_result([one["reason"] for one in body["status"]["conditions"]])
        return {**_REQUEST, **(body or {})}


@pytest.mark.parametrize(
    ("templates", "reasons"), [([_TEMPLATE], ["NotAccepted"]), ([], ["NotAccepted", "FailedToCreatePods"])]
)
async def test_a_template_that_no_watch_has_told_of_is_asked_for(
    templates: list[Raw], reasons: list[str], tmp_path: Path
) -> None:
    api = Late(templates)
    running = asyncio.create_task(SimulatedCloud(api, Machines(tmp_path / "no.sock"), scale=1).run())
    try:
        assert await asyncio.wait_for(api.said, 30) == reasons
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
