"""A cluster that somebody else made: found by a context of the user's kubeconfig, never changed as a cluster.

Decides which context is used and refuses when it is not there. Reads the kubeconfig and nothing of the
cluster.
"""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from muster.components.bundle import BundleProvider
from muster.components.clusters.cloud import Cloud
from muster.model import clusters

_FILES = ("certificate-authority", "client-certificate", "client-key")


class MissingContext(Exception):
    """The stack names a context that the kubeconfig does not have; the message says which there are."""


class ExistingCluster(pulumi.ComponentResource):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    Outputs: `name`, `context`.
    """

    def __init__(
        self, name: str, *, cluster: clusters.ExistingCluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:clusters:Existing", name, None, opts)
        self.cloud: Cloud | None = None
        config, context = kubeconfig_of(
            cluster.context, file=cluster.kubeconfig, stack_path="muster:cluster.context"
        )
        kubeconfig = pulumi.Output.secret(config)
        child = pulumi.ResourceOptions(parent=self)
        self.kubernetes = kubernetes.Provider(
            f"{name}-kubernetes", kubeconfig=kubeconfig, context=context, opts=child
        )
        self.bundles = BundleProvider(f"{name}-bundles", kubeconfig=kubeconfig, context=context, opts=child)
        self.outputs: dict[str, pulumi.Input[object]] = {"name": cluster.name, "context": context}
        self.register_outputs(self.outputs)


def kubeconfig_of(context: str | None, *, file: str | None = None, stack_path: str) -> tuple[str, str]:
    """A kubeconfig with this one context and nothing beside it, so that another context's change is no change
    here; and the context's name. Without a name it is the current one of `file`.
    """
    files = _files(file)
    found: dict[str, dict[str, Any]] = {"contexts": {}, "clusters": {}, "users": {}}
    folders: dict[int, Path] = {}
    for path in files:
        config = yaml.safe_load(path.read_text()) or {}
        context = context or (config.get("current-context") if file else None)
        for section, known in found.items():
            for entry in config.get(section) or ():
                # As kubectl merges: the first file to name a thing wins.
                folders.setdefault(id(known.setdefault(entry["name"], entry)), path.parent)
    if context is None or context not in found["contexts"]:
        raise MissingContext(_missing(context or "", found["contexts"], files, stack_path))
    chosen = found["contexts"][context]
    parts = {
        "contexts": chosen,
        "clusters": found["clusters"].get(chosen["context"].get("cluster")),
        "users": found["users"].get(chosen["context"].get("user")),
    }
    entries = {
        section: [_inlined(entry, folders[id(entry)])]
        for section, entry in parts.items()
        if entry is not None
    }
    config = {"apiVersion": "v1", "kind": "Config", "current-context": context, **entries}
    return json.dumps(config), context


def _files(file: str | None) -> list[Path]:
    if file is not None:
        return [path for path in [Path(file).expanduser()] if path.is_file()]
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return [path for path in named or [Path("~/.kube/config").expanduser()] if path.is_file()]


def _missing(context: str, contexts: Mapping[str, Any], files: list[Path], stack_path: str) -> str:
    where = (
        ", ".join(map(str, files))
        or "no kubeconfig ($KUBECONFIG names no file and ~/.kube/config is not there)"
    )
    there = ", ".join(sorted(contexts)) or "none"
    fix = "write one of them, or set KUBECONFIG to the file that has it"
    if not context:
        return f"{stack_path}: no context is given; {where} has {there}: {fix}."
    return f"{stack_path}: there is no context {context!r} in {where}, which has {there}: {fix}."


def _inlined(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Certificates by content instead of by path: the providers run elsewhere, and paths differ between
    machines.
    """
    kind = next(key for key in entry if key != "name")
    body = dict(entry[kind])
    for field in _FILES:
        if body.get(field):
            data = (folder / body.pop(field)).read_bytes()
            body[f"{field}-data"] = base64.b64encode(data).decode()
    return {"name": entry["name"], kind: body}
