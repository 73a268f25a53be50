"""Fits a linear model on two kinds of GPU node at once: half of the data here, half of it there.

Each worker keeps its own shard and never sends it anywhere; only gradients travel. The numbers are plain
Python, so that the example needs nothing but Ray in its image. It fails unless it finds the model that the
data came from.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

import ray

TRUE_WEIGHTS = (3.0, -2.0, 0.5, 4.0)
NOISE = 0.1
RATE = 0.4
TOLERANCE = 0.05


@ray.remote(num_gpus=1)
class Shard:
    """One part of the data, on one GPU node."""

    def __init__(self, number: int, rows: int) -> None:
        chance = random.Random(number)  # noqa: S311 - a simulation, and it must repeat itself
        self.rows = []
        for _ in range(rows):
            features = [1.0, *(chance.uniform(-1, 1) for _ in TRUE_WEIGHTS[1:])]
            target = sum(weight * feature for weight, feature in zip(TRUE_WEIGHTS, features, strict=True))
            self.rows.append((features, target + chance.gauss(0, NOISE)))

    def where(self) -> tuple[str, list[int]]:
        return os.environ.get("NODE_NAME", "?"), ray.get_gpu_ids()

    def gradient(self, weights: list[float]) -> tuple[list[float], float]:
        """The mean gradient and the mean squared error of this shard."""
        slope, loss = [0.0] * len(weights), 0.0
        for features, target in self.rows:
            error = sum(weight * feature for weight, feature in zip(weights, features, strict=True)) - target
            loss += error * error
            for index, feature in enumerate(features):
                slope[index] += 2 * error * feature
        return [value / len(self.rows) for value in slope], loss / len(self.rows)


def say(text: str) -> None:
    print(f"[train] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", default="l4,h100", help="one shard goes to each")
    parser.add_argument("--rows", type=int, default=5000, help="of each shard")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()

    ray.init()
    pools = options.pools.split(",")
    # A worker group says which pool it is on by a Ray resource of the pool's name.
    shards = [
        Shard.options(resources={pool: 1}).remote(index, options.rows) for index, pool in enumerate(pools)
    ]
    places = ray.get([shard.where.remote() for shard in shards])
    for pool, (node, gpus) in zip(pools, places, strict=True):
        say(f"{pool}: {options.rows} rows on node {node}, GPU {gpus}")

    begun = time.monotonic()
    weights = [0.0] * len(TRUE_WEIGHTS)
    for step in range(1, options.steps + 1):
        answers = ray.get([shard.gradient.remote(weights) for shard in shards])
        slope = [sum(parts) / len(shards) for parts in zip(*(answer[0] for answer in answers), strict=True)]
        weights = [weight - RATE * part for weight, part in zip(weights, slope, strict=True)]
        if step == 1 or step % 10 == 0:
            say(f"step {step} of {options.steps}: loss {sum(loss for _, loss in answers) / len(shards):.4f}")

    worst = max(abs(found - true) for found, true in zip(weights, TRUE_WEIGHTS, strict=True))
    found = ", ".join(f"{weight:.2f}" for weight in weights)
    seconds = time.monotonic() - begun
    say(f"weights {found}; off by {worst:.3f} at most; {seconds:.1f} s on {len(shards)} nodes")
    return 0 if worst < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
