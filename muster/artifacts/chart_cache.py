"""A chart whose digest is known, as a file beside the program: fetched once, compared every time.

Decides that Helm gets the file and never the address then: what Helm fetches itself it compares with nothing.
Leaves a chart without a digest to Helm, and one from a folder to upstream.py, which compares it there.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from muster.artifacts.oci.helm import archive
from muster.artifacts.oci.registry import RegistryError, digest_of
from muster.artifacts.oci.web import Unreachable, Web
from muster.artifacts.resolved import ArtifactError
from muster.model.charts import Chart

# From the program's own directory on: the release keeps the path in its state, and so do other people's.
FOLDER: Final = Path(".charts")


def held(chart: Chart, *, web: Web | None = None) -> Chart:
    """The chart as Helm is told it. ArtifactError where what comes is not what the digest says."""
    if not chart.digest or chart.home is None or chart.version is None:
        return chart
    path = FOLDER / f"{chart.chart}-{chart.version}.tgz"
    if not path.is_file() or digest_of(path.read_bytes()) != chart.digest:
        _keep(_fetched(chart, web or Web()), path)
    return replace(chart, reference=f"{path}", version=None, repository=None)


def _fetched(chart: Chart, web: Web) -> bytes:
    try:
        content = archive(chart.chart, chart.version or "", home=chart.home or "", web=web)
    except (RegistryError, Unreachable) as error:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} cannot be had from {chart.home}: {error} Name a mirror "
            f"(`muster:charts.mirror`) or a folder (`muster:charts.path`) that has it."
        ) from None
    if (found := digest_of(content)) != chart.digest:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} from {chart.home} is {found}, but should be "
            f"{chart.digest}. If the project published it anew and you trust that, take "
            f"`muster:charts.digests.{chart.name}` out of the stack and run `make pin`."
        )
    return content


def _keep(content: bytes, path: Path) -> None:
    """In one step: two programs may run in one checkout."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
