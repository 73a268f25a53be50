"""The cluster itself: its programs, and the thread that keeps nodes, Kueue and our webhooks in step with what
is there.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

from tests import built, envtest
from tests.clouds.cluster.controllers import PROGRAMS, STAGES, controllers
from tests.clouds.cluster.kueue import HostedKueue
from tests.clouds.cluster.machines import nodes
from tests.clouds.cluster.reviews import HostedReviews
from tests.clouds.handed import Handed, handed
from tests.clouds.standin.serve import Clouds
from tests.envtest import ControlPlane, Programs

# Addresses of this machine, so that what serves a Service can listen on the Service's own. Clusters of two
# processes must not give out the same one.
_SERVICES: Final = f"--service-cluster-ip-range=127.{64 + os.getpid() % 64}.0.0/16"
_NODES: Final = "/api/v1/nodes"
_PAUSE: Final = 0.2


class Standing:
    """An API server with everything that acts on it. `trouble`: what the last look at it ran into."""

    def __init__(self, plane: ControlPlane, programs: Programs, clouds: Clouds) -> None:
        self.plane = plane
        self.handed: Handed = handed(plane.kubeconfig())
        self.trouble = ""
        self._kueue = HostedKueue(plane, programs)
        self._reviews = HostedReviews(plane)
        self._clouds = clouds
        self._ended = threading.Event()

    def objects(self, path: str) -> dict[str, dict[str, Any]]:
        """What a list of the API holds, by `namespace/name` or name."""
        found = self.plane.call("GET", path)["items"]
        return {
            "/".join(filter(None, map(each["metadata"].get, ("namespace", "name")))): each for each in found
        }

    @contextmanager
    def followed(self) -> Iterator[None]:
        thread = threading.Thread(target=self._follow, name="cluster", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(30)
            self._kueue.stop()
            self._reviews.stop()

    def _follow(self) -> None:
        while not self._ended.wait(_PAUSE):
            try:
                self._register()
                self._kueue.follow()
                self._reviews.follow()
                self.trouble = ""
            except (OSError, KeyError) as error:
                # Something is half made or half gone; the next look finds it whole.
                told = error.read().decode() if isinstance(error, HTTPError) else ""
                self.trouble = f"{error!r} {told}"

    def _register(self) -> None:
        wanted, there = nodes(self._clouds), self.objects(_NODES)
        for name in wanted.keys() - there.keys():
            self.plane.call("POST", _NODES, wanted[name])
        for name in there.keys() - wanted.keys():
            self.plane.call("DELETE", f"{_NODES}/{name}")


@contextmanager
def standing(folder: Path, clouds: Clouds) -> Iterator[Standing]:
    """A cluster for the clouds to hand out, until the block ends."""
    programs = built.programs(("etcd", "kube-apiserver", "kueue", *PROGRAMS), (STAGES,))
    with envtest.control_plane(folder, programs, flags=(_SERVICES,)) as plane, controllers(plane, programs):
        made = Standing(plane, programs, clouds)
        with made.followed():
            yield made
