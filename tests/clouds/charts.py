"""A folder of charts, as `muster:charts.path` names one for a cluster that reaches no registry.

Kueue's chart is Kueue's own, out of the module that the plane builds it from. The others cannot be had
offline: recording charts stand in their places, with the kinds that their originals bring.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from muster.artifacts.catalogue import catalogue
from muster.artifacts.resolved import archive_name
from tests import built
from tests.clouds import recording
from tests.kai import definitions

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def offline(folder: Path) -> Path:
    """The folder, with an archive of each chart that a shipped stack takes."""
    charts = {"kueue": built.chart("kueue"), **dict(_recording(folder / "recording"))}
    made = folder / "charts"
    made.mkdir()
    for name, chart in charts.items():
        entry = catalogue().charts[name]
        with tarfile.open(made / archive_name(entry), "w:gz") as archive:
            archive.add(chart, arcname=entry.chart)
    return made


def _recording(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name -> the chart in the place of the one that the table of versions has under it."""
    for name, paths, crds in (
        ("gpu-operator", recording.GPU_OPERATOR, None),
        ("kuberay", recording.KUBERAY, _kinds_of_kuberay(folder / "kinds")),
        ("kai", recording.KAI, definitions.CRDS),
        ("karpenter", recording.KARPENTER, None),
    ):
        entry = catalogue().charts[name]
        chart = recording.chart(
            folder / name, name=entry.chart, version=entry.version, paths=paths, crds=crds
        )
        yield name, chart


def _kinds_of_kuberay(folder: Path) -> Path:
    """KubeRay's own kinds without their schemas: megabytes, which an API server takes a minute for on a busy
    machine. Helm gives it that minute and no more, and nothing here makes an object of them.
    """
    folder.mkdir(parents=True)
    for file in (built.kuberay().resolve().parent / "crd" / "bases").glob("*.yaml"):
        kind = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        for version in kind["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": _ANYTHING}
        (folder / file.name).write_text(json.dumps(kind))
    return folder
