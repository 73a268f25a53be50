"""The flags of the local cluster's API server that no Muster policy stands for."""

import urllib.error
from pathlib import Path

import pytest

from muster.local.cluster.units import ADMISSION_PLUGINS
from tests import built, envtest


def test_no_service_of_the_local_cluster_names_an_external_address(tmp_path: Path) -> None:
    """In any namespace, and not even for its administrator."""
    programs = built.programs(("etcd", "kube-apiserver"), ())
    # Headless: a young API server answers 500 while it cannot give addresses yet.
    spec = {"clusterIP": "None", "externalIPs": ["192.0.2.1"], "ports": [{"port": 443}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mine"}, "spec": spec}
    with envtest.control_plane(tmp_path, programs, flags=(ADMISSION_PLUGINS,)) as server:
        server.settle()
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.call("POST", "/api/v1/namespaces/default/services", body)
        assert "external IPs is denied" in refused.value.read().decode()
        assert refused.value.code == 403
