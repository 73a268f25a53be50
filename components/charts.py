"""A chart as one Helm release.

Responsible for the options of a release, wherever its chart comes from. One release, not a resource for each
of a chart's objects: docs/decisions/001-resource-grain.md has the reason.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from muster.artifacts.chart_cache import cached_chart
from muster.model.charts import Chart

# A release waits for its pods: with images of gigabytes on fresh nodes that takes minutes.
_TIMEOUT = 600


def release(
    name: str,
    chart: Chart,
    *,
    release_name: str,
    namespace: str,
    values: pulumi.Input[Mapping[str, Any]],
    opts: pulumi.ResourceOptions,
    timeout: int = _TIMEOUT,
    skip_crds: bool = False,
) -> kubernetes.helm.v3.Release:
    """The resource `name`, which is Helm's release `release_name` and is done when its pods are ready.

    ArtifactError where the chart's archive does not have its digest.
    """
    chart = cached_chart(chart)
    home = chart.repository
    return kubernetes.helm.v3.Release(
        name,
        name=release_name,
        chart=chart.reference,
        version=chart.version,
        repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=home) if home else None,
        namespace=namespace,
        values=values,
        timeout=timeout,
        skip_crds=skip_crds,
        opts=opts,
    )
