"""Writes `muster/model/definitions.json`: `python -m tests.definitions`, after another version is pinned.

The fields of what members of a team may create, from the definitions of KubeRay, JobSet and LeaderWorkerSet
and Kubernetes' OpenAPI, of the versions that the local cluster is built from, and of Kubeflow's operators, of
those that Kueue is built with; and of what a stack says in
KAI's words, with our sentences and examples (tests/kai/crds). Equal parts are written once.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.builder import versions
from muster.model.definitions import FILE
from muster.model.work import BY_KIND
from tests.kai import definitions as kai
from tests.unit.model.go_modules import source_of

Json = dict[str, Any]
_KUBERNETES: Final = {
    "apis__apps__v1_openapi.json": {each: f"apps.v1.{each}" for each in ("Deployment", "StatefulSet")},
    "apis__batch__v1_openapi.json": {"Job": "batch.v1.Job", "CronJob": "batch.v1.CronJob"},
    "api__v1_openapi.json": {each: f"core.v1.{each}" for each in ("ConfigMap", "Secret", "Service")},
}
_CRDS: Final = {
    "kuberay": "config/crd/bases",
    "jobset": "config/components/crd/bases",
    "lws": "config/crd/bases",
    "trainer": "manifests/base/crds",
}
# Those of sigs.k8s.io/kueue at v0.19.2, go.mod, read 2026-11-29.
_OPERATORS: Final = {
    "github.com/kubeflow/training-operator@v1.9.3": "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
    "github.com/kubeflow/mpi-operator@v0.8.2": "manifests/base/kubeflow.org_mpijobs.yaml",
}
# Lists whose items need a field that a webhook of their controller fills in (JobSet 0.12.0,
# pkg/webhooks/jobset_webhook.go, Default).
_FILLED: Final = {"JobSet": {"spec.failurePolicy.rules": "name"}}
_WORDS: Final = ("type", "required", "enum", "minimum", "maximum", "pattern", "minItems", "maxItems")
# Of a section of a stack: what a reader is told of it, and the bounds that no kind of KubeRay's has.
_WORDS_OF_SPECS: Final = (*_WORDS, "exclusiveMinimum", "minLength", "maxLength", "description", "example")
_KAI: Final = ("Queue", "SchedulingShard", "Topology")
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_PRESERVED: Final = "x-kubernetes-preserve-unknown-fields"
_SHORTEST: Final = 120


class _Parts:
    """Schemas, of which a longer one is written once and named by its digest. `known`: those of OpenAPI.
    `words`: what is kept of each.
    """

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known
        self.words: tuple[str, ...] = _WORDS
        self.written: dict[str, Json] = {}

    def short(self, schema: Json) -> Json:
        for one in schema.get("allOf", ()):
            schema = {**one, **schema}
        if "$ref" in schema:
            return self.short(self.known[schema["$ref"].rpartition("/")[2]])
        found: Json = {word: schema[word] for word in self.words if word in schema}
        if "required" in found:
            fields = schema.get("properties", {})
            found["required"] = [each for each in found["required"] if not _has_default(fields.get(each, {}))]
        if schema.get(_INT_OR_STRING) or schema.get("format") == "int-or-string":
            kept = ("pattern", "description", "example")
            found = {key: found[key] for key in kept if key in found} | {"type": "int-or-string"}
        elif "oneOf" in schema:
            found["type"] = "quantity"
        if schema.get(_PRESERVED):
            found["open"] = True
        if "properties" in schema:
            found["properties"] = {key: self.short(each) for key, each in schema["properties"].items()}
        for word in ("items", "additionalProperties"):
            if isinstance(schema.get(word), dict):
                found[word] = self.short(schema[word])
        text = json.dumps(found, sort_keys=True)
        if len(text) < _SHORTEST:
            return found
        name = sha256(text.encode()).hexdigest()[:8]
        self.written[name] = found
        return {"$ref": name}


def _has_default(schema: Json) -> bool:
    """Whether the API server fills the field in. OpenAPI also lists empty defaults, and names those that
    Kubernetes sets in code only in the description.
    """
    return schema.get("default", "") not in ("", {}) or "Defaults to " in schema.get("description", "")


def definitions() -> str:
    """The text of the file."""
    programs = versions.load().programs
    kubernetes = programs["kube-apiserver"]
    kinds: Json = {}
    parts = _Parts({})
    pinned = ((programs[name], at) for name, at in _CRDS.items())
    folders = [source_of(f"{program.module}@{program.version}", at) for program, at in pinned]
    operators = [source_of(module, at) for module, at in _OPERATORS.items()]
    for file in (*(file for bases in folders for file in sorted(bases.glob("*_*.yaml"))), *operators):
        spec = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]  # noqa: S506
        if spec["names"]["kind"] not in BY_KIND:
            continue
        for each in spec["versions"]:
            name = f"{spec['group']}/{each['name']} {spec['names']['kind']}"
            _fill(each["schema"]["openAPIV3Schema"], _FILLED.get(spec["names"]["kind"], {}))
            is_newest = each["name"] == BY_KIND[spec["names"]["kind"]].version
            kinds[name] = parts.short(_written(each["schema"]["openAPIV3Schema"])) if is_newest else {}
    folder = source_of(f"{kubernetes.module}@{kubernetes.version}", "api/openapi-spec/v3")
    for file_name, listed in _KUBERNETES.items():
        parts.known = json.loads((folder / file_name).read_text())["components"]["schemas"]
        path = file_name.removesuffix("_openapi.json").replace("__", "/")
        group = path.removeprefix("apis/").removeprefix("api/")
        for kind, name in listed.items():
            kinds[f"{group} {kind}"] = parts.short(_written(parts.known[f"io.k8s.api.{name}"]))
    parts.words = _WORDS_OF_SPECS
    specs: Json = {}
    for definition in kai.ours().values():
        (version,) = definition["spec"]["versions"]
        name = f"{definition['spec']['group']}/{version['name']} {definition['spec']['names']['kind']}"
        if definition["spec"]["names"]["kind"] in _KAI:
            specs[name] = parts.short(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    sections = {"kinds": kinds, "specs": specs, "parts": parts.written}
    return "{" + ", ".join(f'"{name}": {_lines(each)}' for name, each in sections.items()) + "}\n"


def _lines(found: Json) -> str:
    """One a line, so that a diff names what has changed."""
    lines = (f"{json.dumps(key)}: {json.dumps(found[key], sort_keys=True)}" for key in sorted(found))
    return "{\n" + ",\n".join(lines) + "\n}"


def _fill(schema: Json, filled: Mapping[str, str]) -> None:
    """Take what is filled in out of what is required."""
    for path, name in filled.items():
        found = schema
        for key in path.split("."):
            found = found["properties"][key]
        found["items"]["required"].remove(name)


def _written(schema: Json) -> Json:
    """Without what no author writes."""
    left = {key: each for key, each in schema["properties"].items() if key != "status"}
    return {**schema, "properties": left}


if __name__ == "__main__":
    Path(FILE).write_text(definitions())
