"""AWS has raised a control plane whose version left support: the next `up` neither lowers it nor fails."""

from pathlib import Path

import pytest

from tests.clouds.conftest import ClusterOf
from tests.clouds.stack_files import OWN, edited
from tests.clouds.standin.serve import Clouds
from tests.clouds.standin.tables.eks import CLUSTER_TYPE

SMALL = {f"muster:pools.{name}": None for name in ("t4", "a100", "h100")}


@pytest.mark.parametrize("refresh", [(), ("--refresh",)], ids=["as it is known", "refreshed"])
def test_the_next_up_after_a_raise_by_aws(
    refresh: tuple[str, ...], clouds: Clouds, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    more = {**SMALL, "muster:cluster.protect": False, "muster:cluster.version": "1.34"}
    workspace = cluster_of(edited(OWN["eks"], tmp_path / "small.yaml", more))
    workspace.up()
    (cluster,) = clouds.aws.of(CLUSTER_TYPE)
    cluster.inputs["version"] = cluster.outputs["version"] = "1.35"
    before = list(clouds.aws.log)

    run = workspace.up(*refresh)
    assert clouds.aws.log == before
    assert "runs Kubernetes 1.35, and the stack names 1.34: AWS raised it" in run.output
