"""The doctor finds nodes that give a container the GPUs that its environment names."""

from typing import Any

import pytest

from muster.cloud.doctor.cluster_checks import check_visible_devices
from muster.cloud.doctor.findings import Finding, State
from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.model.clusters import Provider
from muster.model.gpu_operator import OBEYS_VARIABLE
from tests.unit.doctor.test_node_pools import existing
from tests.unit.model.model_stacks import new_stack
from tests.unit.preview.http_world import Asked, Reply, serving

CDI = "cdi-annotations,cdi-cri"


def daemon_set(name: str, *command: str, **env: str) -> dict[str, Any]:
    container = {
        "name": f"{name}-ctr",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    return {
        "metadata": {"name": name, "namespace": "gpus"},
        "spec": {"template": {"spec": {"containers": [{"name": "other"}, container]}}},
    }


def plugin(*command: str, **env: str) -> dict[str, Any]:
    return daemon_set("nvidia-device-plugin", *command, **env)


def toolkit(**env: str) -> dict[str, Any]:
    return daemon_set("nvidia-container-toolkit", **env)


def found(*daemon_sets: dict[str, Any], provider: Provider = Provider.EXISTING) -> list[Finding]:
    def answer(asked: Asked) -> Reply:
        assert asked.path.partition("?")[0] == "/apis/apps/v1/daemonsets"
        return Reply(200, {"metadata": {}, "items": list(daemon_sets)})

    known = existing() if provider is Provider.EXISTING else new_stack(provider)
    with serving(answer) as server:
        return list(check_visible_devices(known, Client(Access(server=server.url))))


@pytest.mark.parametrize(
    "unsafe",
    [plugin(), plugin(DEVICE_LIST_STRATEGY="envvar,cdi-cri"), plugin("x", "--device-list-strategy=envvar")],
)
def test_a_plugin_that_names_gpus_by_a_variable_fails(unsafe: dict[str, Any]) -> None:
    (finding,) = found(unsafe)
    assert (finding.check, finding.state) == ("GPU isolation", State.FAILED)
    assert "gpus/nvidia-device-plugin" in finding.message
    assert "DEVICE_LIST_STRATEGY=cdi-cri" in finding.fix


def test_a_runtime_that_obeys_fails_until_it_is_told_not_to() -> None:
    by_cdi = plugin(DEVICE_LIST_STRATEGY=CDI)
    (finding,) = found(by_cdi, toolkit())
    assert finding.state is State.FAILED
    assert f"{OBEYS_VARIABLE}=false" in finding.fix
    (finding,) = found(by_cdi, toolkit(**{OBEYS_VARIABLE: "false"}))
    assert finding.state is State.OK


def test_what_a_node_s_image_decides_is_not_known() -> None:
    by_cdi = plugin("x", f"--device-list-strategy={CDI}")
    (finding,) = found(by_cdi)
    assert finding.state is State.UNKNOWN
    assert "Clusters that exist" in finding.fix
    (finding,) = found(by_cdi, provider=Provider.EKS)
    assert finding.state is State.OK


def test_without_nvidia_s_plugin_nothing_is_said() -> None:
    assert found(daemon_set("nvidia-gpu-device-plugin")) == []
