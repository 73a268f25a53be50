"""Caches charts with a recorded digest as files beside the program: fetched once, compared every time.

Helm gets the file, never the address, because Helm does not compare what it fetches with a digest.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from muster.artifacts.oci.registry import RegistryError, UnreachableError, Web, archive, digest_of
from muster.artifacts.resolved import ArtifactError
from muster.model.charts import Chart
from muster.whole_file import write_whole

# Relative to the program's directory: the release stores the path in its state, which other machines read.
FOLDER: Final = Path(".charts")


def cached_chart(chart: Chart, *, web: Web | None = None) -> Chart:
    """The chart with its cached archive as reference. Raises ArtifactError when the digest does not match."""
    if not chart.digest or chart.home is None or chart.version is None:
        return chart
    path = FOLDER / f"{chart.chart}-{chart.version}.tgz"
    if not path.is_file() or digest_of(path.read_bytes()) != chart.digest:
        _keep(_fetched(chart, web or Web()), path)
    return replace(chart, reference=f"{path}", version=None, repository=None)


def _fetched(chart: Chart, web: Web) -> bytes:
    try:
        content = archive(chart.chart, chart.version or "", home=chart.home or "", web=web)
    except (RegistryError, UnreachableError) as error:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} cannot be fetched from {chart.home}: {error.message}",
            fix="name a mirror (`muster:charts.mirror`) or a folder (`muster:charts.path`) that has it.",
        ) from None
    if (found := digest_of(content)) != chart.digest:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} from {chart.home} has digest {found}, expected "
            f"{chart.digest}. If the project republished it and you trust that, take "
            f"`muster:charts.digests.{chart.name}` out of the stack and run `make pin`."
        )
    return content


def _keep(content: bytes, path: Path) -> None:
    """Whole, because two programs may run in one checkout."""
    path.parent.mkdir(exist_ok=True)
    write_whole(path, content)
