"""The Kueue that a cluster has before it is upgraded, where a person names one.

MUSTER_KUEUE_BEFORE: its program. MUSTER_KUEUE_BEFORE_SOURCE: the folder of its module, with its kinds and its
chart; without it those of the pinned one stand in. With its kinds the store begins as a cluster has it that
has come the whole way: written in the version that Kueue stored before 0.16, v1beta1.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from muster.model import names
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import CONVERTED
from tests.envtest.process import CRDS

_PROGRAM: Final = os.environ.get("MUSTER_KUEUE_BEFORE")
_SOURCE: Final = os.environ.get("MUSTER_KUEUE_BEFORE_SOURCE")
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FIRST_STORED: Final = "v1beta1"


@dataclass(frozen=True, slots=True)
class Older:
    """`programs` with what is of the older Kueue in place of the pinned one's."""

    programs: Programs
    chart: Path
    has_kinds: bool

    def define(self, plane: ControlPlane) -> None:
        """Its own kinds over those that are there, stored as they were at first."""
        if self.has_kinds:
            plane.define([_stored_as(_FIRST_STORED, each) for each in self._kinds()])

    def store_anew(self, plane: ControlPlane) -> None:
        """As its own kinds have it: what stands is still stored as it was, what is written is not."""
        if not self.has_kinds:
            return
        for kind in self._kinds():
            stored = {version["name"]: version["storage"] for version in kind["spec"]["versions"]}
            path = f"{_DEFINITIONS}/{kind['metadata']['name']}"
            live = plane.call("GET", path)
            for version in live["spec"]["versions"]:
                version["storage"] = stored[version["name"]]
            plane.call("PUT", path, live)

    def _kinds(self) -> list[dict[str, Any]]:
        return [each for each in self.programs.kinds(CRDS) if each["metadata"]["name"] in CONVERTED]


def older(programs: Programs, chart: Path) -> Older:
    """Of the pinned release itself where nothing is named."""
    if _PROGRAM:
        programs = replace(programs, programs={**programs.programs, "kueue": Path(_PROGRAM)})
    if _SOURCE:
        kinds = Path(_SOURCE) / "config" / "components" / "crd" / "bases"
        programs = replace(programs, assets={**programs.assets, CRDS: kinds})
        chart = Path(_SOURCE) / "charts" / "kueue"
    return Older(programs, chart, bool(_SOURCE))


def stored_versions(plane: ControlPlane) -> set[str]:
    """In which versions there may be objects in the store."""
    found = (plane.call("GET", f"{_DEFINITIONS}/{name}") for name in CONVERTED)
    return {version for each in found for version in each["status"]["storedVersions"]}


def migrate(plane: ControlPlane) -> None:
    """Writes every object once more as it is, which stores it in the present version, and says so."""
    (_, version) = names.KUEUE_API_VERSION.split("/")
    for name in sorted(CONVERTED):
        plural = name.partition(".")[0]
        for item in plane.call("GET", f"/apis/{names.KUEUE_API_VERSION}/{plural}")["items"]:
            space = item["metadata"].get("namespace")
            within = f"/namespaces/{space}" if space else ""
            path = f"/apis/{names.KUEUE_API_VERSION}{within}/{plural}/{item['metadata']['name']}"
            plane.call("PATCH", path, {}, content_type="application/merge-patch+json")
        body = {"status": {"storedVersions": [version]}}
        path = f"{_DEFINITIONS}/{name}/status"
        plane.call("PATCH", path, body, content_type="application/merge-patch+json")


def _stored_as(version: str, kind: dict[str, Any]) -> dict[str, Any]:
    versions = kind["spec"]["versions"]
    if version not in {each["name"] for each in versions}:
        return kind
    flipped = [{**each, "storage": each["name"] == version} for each in versions]
    return {**kind, "spec": {**kind["spec"], "versions": flipped}}
