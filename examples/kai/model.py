"""A small language model behind Ray Serve: it continues a text with the words that followed in its training.

Counts in plain Python, so that the example needs nothing but Ray in its image. `app` is what
`rayservice.yaml` names; it takes a GPU of its worker, as a large model would.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import ray
from ray import serve
from starlette.requests import Request

_TEXT = "a gang starts whole or a gang waits whole and a gang that waits holds nothing"


@serve.deployment(ray_actor_options={"num_gpus": 1})
class Model:
    def __init__(self) -> None:
        self._following: dict[str, Counter[str]] = defaultdict(Counter)
        for word, following in pairwise(_TEXT.split()):
            self._following[word][following] += 1

    async def __call__(self, request: Request) -> dict[str, Any]:
        words = [request.query_params["word"]]
        while len(words) < int(request.query_params.get("words", "6")) and self._following[words[-1]]:
            words.append(self._following[words[-1]].most_common(1)[0][0])
        return {"text": " ".join(words), "node": os.environ.get("NODE_NAME"), "gpus": ray.get_gpu_ids()}


app = Model.bind()
