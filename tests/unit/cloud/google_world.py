"""Google Cloud on loopback: answers by method and path, and what was asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.auth.credentials import AnonymousCredentials

from muster.cloud.clients import Google
from tests.unit.preview.http_world import Asked, Reply, serving

Routes = dict[str, tuple[int, dict[str, Any]]]


class Cloud:
    """`routes`: "GET /path" -> (status, answer); another path is not found. `asked`: (route, body)."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.asked: list[tuple[str, Any]] = []

    def answer(self, asked: Asked) -> Reply:
        route = f"{asked.method} {asked.path.partition('?')[0]}"
        self.asked.append((route, asked.body))
        missing = 404, {"error": {"code": 404, "message": f"no {route}"}}
        return Reply(*self.routes.get(route, missing), {"Content-Type": "application/json"})


@contextmanager
def cloud(routes: Routes) -> Iterator[tuple[Cloud, Google]]:
    """The library's own calls against it."""
    made = Cloud(routes)
    with serving(made.answer) as server:
        yield made, Google(endpoint=f"{server.url}/", credentials=AnonymousCredentials())
