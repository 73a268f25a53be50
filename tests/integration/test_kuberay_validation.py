"""What KubeRay's own validation refuses is not admitted: it would neither start nor stop such an object.

Objects are drawn from the pinned definitions: a job, cluster or service that runs, with a few fields set to
values of their types. KubeRay's validation is compiled from its module (programs/kuberay/main.go).
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from muster.local.builder import everything
from muster.model.definitions import Schema, load, resolve
from tests.length import examples
from tests.unit.check.stacks import judged, pod, ray_job

Json = dict[str, Any]
Path = tuple[str | int, ...]
_PROGRAM: Final = "kuberay-validator"
# What KubeRay compares with, and what no parser of its takes.
_WORDS: Final = (
    *("", "a", "-1", "0", "1", "true", "false", "None", "Never", "Always", "v1", "v2", "token", "2.51.0"),
    *("2.55.0", "2.x", "30m", "1x", "SidecarMode", "HTTPMode", "InteractiveMode", "K8sJobMode", "pip: [a]"),
    *("pip: [", "{}", "[]", "NewCluster", "Recreate", "redis:6379", "DeleteCluster", "DeleteWorkers"),
    *("DeleteSelf", "DeleteNone", "SUCCEEDED", "FAILED", "Failed", "Complete", "UPPER", "a.b", "x" * 70),
)
_NUMBERS: Final = (-1, 0, 1, 3, 60, 2**31 - 1)
_KEYS: Final = {
    "annotations": ("ray.io/ft-enabled", "ray.io/external-storage-namespace", "ray.io/initializing-timeout"),
    "rayStartParams": ("num-cpus", "num-gpus", "memory", "labels", "redis-password", "redis-username"),
    "env": ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME", "RAY_enable_autoscaler_v2"),
    "": ("a", "UPPER/x", "a.b/c", "GPU"),
}
_DEEP: Final = frozenset({"template", "submitterPodTemplate", "headService", "serveService"})
_KINDS: Final = ("RayJob", "RayCluster", "RayService")
_MOST_IN_A_LIST: Final = 2


def _leaves(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, st.SearchStrategy[Any]]]:
    """The path of each field, and its values."""
    schema = resolve(schema)
    name = str(path[-1]) if path else ""
    if "enum" in schema:
        yield path, st.sampled_from(schema["enum"])
    elif name in _DEEP and len(path) > 1 and name != "template":
        return
    elif name == "template":
        yield (*path, "spec", "restartPolicy"), st.sampled_from(("", "Never", "OnFailure", "Always"))
        yield (*path, "spec", "containers"), st.just([])
        values = st.sampled_from(("", "1", "true", "a"))
        for key in _KEYS["env"]:
            variable = st.fixed_dictionaries({"name": st.just(key), "value": values})
            yield (*path, "spec", "containers", 0, "env"), st.tuples(variable).map(list)
    elif fields := schema.get("properties"):
        for field, each in fields.items():
            if field not in ("status", "apiVersion", "kind", "scaleStrategy"):
                yield from _leaves(each, (*path, field))
    elif schema.get("type") == "array":
        for index in range(_MOST_IN_A_LIST):
            yield from _leaves(schema.get("items", {}), (*path, index))
    elif "additionalProperties" in schema:
        for key in _KEYS.get(name, _KEYS[""]):
            yield (*path, key), st.sampled_from(_WORDS)
    elif schema.get("type") in ("integer", "number"):
        yield path, st.sampled_from(_NUMBERS)
    elif schema.get("type") == "boolean":
        yield path, st.booleans()
    elif schema.get("type") == "string":
        yield path, st.sampled_from(_WORDS)


def _edits(kind: str) -> st.SearchStrategy[list[tuple[Path, Any]]]:
    leaves = list(_leaves(load()["kinds"][f"ray.io/v1 {kind}"]))
    leaves += [(("metadata", "name"), st.sampled_from(("a", "1a", "a.b", "x" * 48, "x" * 60)))]
    leaves += [(("metadata", "annotations", key), st.sampled_from(_WORDS)) for key in _KEYS["annotations"]]
    # Each field is as likely as any other, also where a pod has hundreds.
    edit = st.sampled_from(leaves).flatmap(lambda leaf: st.tuples(st.just(leaf[0]), leaf[1]))
    return st.lists(edit, min_size=1, max_size=4)


def _base(kind: str) -> Json:
    body = ray_job(pod(), pod())
    cluster = body["spec"]["rayClusterSpec"]
    if kind == "RayCluster":
        return {**body, "kind": kind, "spec": cluster}
    if kind == "RayService":
        serve = "applications: [{name: app, import_path: a.b}]"
        return {**body, "kind": kind, "spec": {"serveConfigV2": serve, "rayClusterConfig": cluster}}
    return body


def _edited(kind: str, edits: list[tuple[Path, Any]]) -> Json:
    body = copy.deepcopy(_base(kind))
    for path, value in edits:
        _set(body, path, value)
    return body


def _set(holder: Any, path: Path, value: Any) -> None:
    *above, last = path
    for step, after in zip(above, path[1:], strict=True):
        empty: Any = [] if isinstance(after, int) else {}
        if isinstance(step, int):
            holder.extend({} for _ in range(step + 1 - len(holder)))
            holder = holder[step]
        else:
            holder = holder.setdefault(step, empty)
    if isinstance(last, int):
        holder.extend(value for _ in range(last + 1 - len(holder)))
    holder[last] = value


class _KubeRay:
    def __init__(self) -> None:
        [(_, program)] = everything.ensure_only(_PROGRAM)
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def refusal(self, body: Json) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(body) + "\n")
        self._process.stdin.flush()
        answer: str = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def kuberay() -> Iterator[_KubeRay]:
    validator = _KubeRay()
    yield validator
    validator.close()


@pytest.mark.parametrize("kind", _KINDS)
def test_what_runs_passes_both(kuberay: _KubeRay, kind: str) -> None:
    answer = judged(_base(kind)).answer
    assert answer.is_admitted, answer.findings
    assert not kuberay.refusal(answer.object)


@pytest.mark.parametrize("kind", _KINDS)
@given(st.data())
@settings(deadline=None, max_examples=examples(100))
def test_what_kuberay_refuses_is_not_admitted(kuberay: _KubeRay, kind: str, data: st.DataObject) -> None:
    body = _edited(kind, data.draw(_edits(kind)))
    answer = judged(body).answer
    if answer.is_admitted:
        note(json.dumps(answer.object))
        assert not kuberay.refusal(answer.object)
