"""What `up` writes is what the supervisor reads."""

from pathlib import Path

from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.supervisor import Settings
from muster.local.cluster.units import ReadinessGate, Unit


def test_settings_survive_the_way_into_the_local_cluster(tmp_path: Path) -> None:
    settings = Settings(
        units=(
            Unit("etcd", ("/bin/etcd", "--flag")),
            Unit(
                "later",
                ("/bin/later",),
                after=ReadinessGate(port=1, file=Path("/f"), api_ready=True),
                environment={"A": "b"},
            ),
        ),
        nodes=(NodeSpec("n", "p", "1", "1Gi", gpus=2, labels={"a": "b"}, taints=("k=v:NoSchedule",)),),
        kubelet="/bin/kubelet",
        pause_image="muster.local/pause@sha256:0",
        stores={"system": Path("/s")},
    )
    cluster = LocalCluster("t", 0, run=tmp_path, state=tmp_path)
    settings.write(cluster)
    assert Settings.read(cluster) == settings
