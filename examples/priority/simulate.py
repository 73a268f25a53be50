"""Estimates pi on one GPU node in many rounds, and loses none of them when it is preempted.

A preempted RayJob is started from its entrypoint again, on fresh pods. What it has done until then must lie
outside of them: here in a ConfigMap, because a round is two numbers. Write real models to an object store or
a volume instead.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import ssl
import sys
import time
import urllib.request
from pathlib import Path

import ray

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POINTS = 100_000


class Checkpoint:
    """`{round, inside}` in the ConfigMap of that name, through the Kubernetes API."""

    def __init__(self, name: str) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        namespace = (ACCOUNT / "namespace").read_text()
        self._url = f"https://{host}:{port}/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def read(self) -> tuple[int, int]:
        data = self._call("GET").get("data") or {}
        return int(data.get("round", 0)), int(data.get("inside", 0))

    def write(self, number: int, inside: int) -> None:
        self._call("PATCH", {"data": {"round": str(number), "inside": str(inside)}})

    def _call(self, method: str, body: object = None) -> dict[str, dict[str, str]]:
        """Tries for a minute: an API server that restarts must not cost a round."""
        headers = {"Content-Type": "application/merge-patch+json"}
        deadline = time.monotonic() + 60
        while True:
            # Read each time: the kubelet renews the token.
            headers["Authorization"] = f"Bearer {(ACCOUNT / 'token').read_text()}"
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(self._url, data=data, headers=headers, method=method)  # noqa: S310 - https, see above
            try:
                with urllib.request.urlopen(request, timeout=10, context=self._trust) as answer:  # noqa: S310
                    found: dict[str, dict[str, str]] = json.load(answer)
                    return found
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)


@ray.remote(num_gpus=1)
class Sampler:
    """Draws points in a square and counts those inside the circle."""

    def where(self) -> str:
        return os.environ.get("NODE_NAME", "?")

    def inside(self, number: int) -> int:
        chance = random.Random(number)  # noqa: S311 - a simulation, and it must repeat itself
        return sum(chance.random() ** 2 + chance.random() ** 2 <= 1 for _ in range(POINTS))


def say(text: str) -> None:
    print(f"[train] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, help="name of the ConfigMap")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pool", default="l4")
    parser.add_argument(
        "--pause", type=float, default=0.5, help="seconds between rounds: an example must be slow"
    )
    options = parser.parse_args()

    ray.init()
    sampler = Sampler.options(resources={options.pool: 1}).remote()
    checkpoint = Checkpoint(options.checkpoint)
    done, inside = checkpoint.read()
    where = ray.get(sampler.where.remote())
    say(f"{'resumes after' if done else 'begins; has done'} round {done} of {options.rounds} on node {where}")
    for number in range(done + 1, options.rounds + 1):
        inside += ray.get(sampler.inside.remote(number))
        checkpoint.write(number, inside)
        if number % 10 == 0:
            say(f"round {number} of {options.rounds}: pi is about {4 * inside / (number * POINTS):.4f}")
        time.sleep(options.pause)
    return 0 if abs(4 * inside / (options.rounds * POINTS) - 3.14159) < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
