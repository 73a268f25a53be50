"""A folder of charts, as `muster:charts.path` names one for a cluster that reaches no registry.

Kueue's chart is Kueue's own, out of the module that the plane builds it from. The others cannot be had
offline: recording charts stand in their places, with the kinds that their originals bring.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from stackconfig.catalogue import catalogue
from stackconfig.upstream import archive_name
from tests import built
from tests.clouds import recording
from tests.kai import definitions


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
        ("kuberay", recording.KUBERAY, built.kuberay().resolve().parent / "crd" / "bases"),
        # KAI's own kinds where they are present, otherwise what we wrote down of them.
        ("kai", recording.KAI, definitions.data("kai-crds") or definitions.CRDS),
    ):
        entry = catalogue().charts[name]
        chart = recording.chart(
            folder / name, name=entry.chart, version=entry.version, paths=paths, crds=crds
        )
        yield name, chart
