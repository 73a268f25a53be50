"""Everything that Muster publishes to be submitted passes the reviews of the stack that it is for."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster.config import load
from muster.controller.kube.resource import Object
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Patch, Request, question
from muster.model.gangpolicy import GangPolicy
from muster.model.gangpolicy import from_spec as policy_from_spec
from muster.model.queuetree import from_spec as tree_from_spec
from muster.paths import stack_file
from muster.render import gang, queuetree

_EXAMPLES = Path(__file__).parents[3] / "examples"
_KINDS = ("RayJob", "RayCluster", "RayService", "Job", "CronJob")


def _samples() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Each with the stack beside it, or with the local one of its folder's name, or with `local`."""
    found = {}
    for file in sorted(_EXAMPLES.rglob("*.yaml")):
        named = (file.parent / "stack.yaml", stack_file(f"local-{file.parent.name}", start=_EXAMPLES))
        stack = next((each for each in named if each.exists()), stack_file("local", start=_EXAMPLES))
        if file.name in ("rendered.yaml", "stack.yaml", "before.yaml"):
            continue
        for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if body and body.get("kind") in _KINDS:
                found[f"{file.relative_to(_EXAMPLES)}: {body['kind']}"] = (stack, body)
    return found


SAMPLES = _samples()


def test_there_are_samples_of_several_kinds() -> None:
    assert {body["kind"] for _, body in SAMPLES.values()} >= {"RayJob", "RayCluster", "RayService", "Job"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_published_sample_is_taken(name: str) -> None:
    stack_path, body = SAMPLES[name]
    stack = load(stack_path)
    policy = policy_from_spec(json.loads(json.dumps(gang.policy(stack)["spec"])), is_stored=True)
    assert isinstance(policy, GangPolicy)
    tree = tree_from_spec(json.loads(json.dumps(queuetree.tree(stack)["spec"])))
    namespace = body["metadata"]["namespace"]
    assert namespace in tree.spaces, f"{stack_path} has no such namespace"
    kind = body["kind"].lower()
    raw = msgspec.Raw(json.dumps(body).encode())
    request = Request(uid="u", operation="CREATE", namespace=namespace, object=raw)
    if kind != "cronjob":
        defaulted = Defaults(lambda: tree).review(kind, question(request, Object))
        assert isinstance(defaulted, Allow | Patch), defaulted
    webhook: Any = next(
        each for each in Reviews(lambda: policy, lambda: tree).listed() if each.path == f"/validate-{kind}"
    )
    assert webhook.review(question(request, webhook.type)) == Allow()
