"""`install: false`: how a stack leaves a program to others, and what then has no effect."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.artifacts.resolved import installed
from muster.config import ConfigError, load
from muster.model.programs import Program
from muster.render.tenancy.policies import in_force

STACKS = Path(__file__).parents[3] / "stacks"


def described(folder: Path, name: str, **more: Any) -> Path:
    """A shipped stack with other sections; keys are without `muster:`."""
    content = yaml.safe_load((STACKS / f"Pulumi.{name}.yaml").read_text())
    content["config"] |= {f"muster:{key}": value for key, value in more.items()}
    path = folder / f"Pulumi.{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("name", "key", "program"),
    [("gke-prod", "kuberay", Program.KUBERAY), ("eks-prod", "gpuOperator", Program.GPU_OPERATOR)],
)
def test_a_program_that_is_left_out_is_not_installed(
    tmp_path: Path, name: str, key: str, program: Program
) -> None:
    usual = load(described(tmp_path, name))
    assert usual.installs(program)
    assert program in installed(usual)
    stack = load(described(tmp_path, name, **{key: {"install": False}}))
    assert not stack.installs(program)
    assert program not in installed(stack)


def test_the_gpu_operator_is_installed_where_a_stack_of_any_cloud_asks_for_it(tmp_path: Path) -> None:
    cluster = {"provider": "existing", "name": "own", "context": "own"}
    pools = {
        "h100": {"node": {"cpu": 94, "memory": "1800Gi", "gpus": 8, "accelerator": "h100"}, "maxNodes": 8}
    }
    rest: dict[str, Any] = {"pools": pools, "departments": {"all": {"teams": {"a": {"quota": {"h100": 64}}}}}}
    for more, is_installed in (({}, False), ({"gpuOperator": {"install": True}}, True)):
        stack = load(described(tmp_path, "gke-dev", cluster=cluster, **rest, **more))
        assert (Program.GPU_OPERATOR in installed(stack)) is is_installed
    named = load(described(tmp_path, "gke-dev", cluster={**cluster, "cloud": "aks"}, **rest))
    assert Program.GPU_OPERATOR in installed(named)


def test_kueue_can_be_left_out_where_its_own_configuration_is_untouched(tmp_path: Path) -> None:
    stack = load(described(tmp_path, "gke-dev", kueue={"install": False}, podsReady={}))
    assert not stack.installs(Program.KUEUE)
    assert Program.KUEUE not in installed(stack)


def test_settings_that_only_our_kueue_reads_are_refused_without_it(tmp_path: Path) -> None:
    kueue = {"install": False, "excludeResourcePrefixes": ["example.com/"]}
    with pytest.raises(ConfigError) as refused:
        load(described(tmp_path, "gke-dev", kueue=kueue, podsReady={"timeout": "1h"}))
    message = str(refused.value)
    for path in ("muster:podsReady", "muster:kueue.excludeResourcePrefixes"):
        assert f"{path}" in message
    assert "does not install the Kueue that reads it" in message
    assert "or remove `muster:kueue.install: false`" in message


def test_a_kai_of_others_may_share_gpus_and_its_autoscaling_is_its_own(tmp_path: Path) -> None:
    """Whether work may ask for parts of GPUs is said by a policy of the stack."""
    kai = {"install": False, "gpuSharing": True}
    for settings, is_refused in ((kai, False), ({"install": False}, True)):
        stack = load(described(tmp_path, "local-kai", kai=settings))
        enforced = {policy.name for policy, _ in in_force(stack)}
        assert ("muster-kai-sharing" in enforced) is is_refused
    with pytest.raises(ConfigError, match=r"muster:kai\.clusterAutoscaling: has no effect"):
        load(described(tmp_path, "local-kai", kai={**kai, "clusterAutoscaling": True}))


def test_a_word_beside_install_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"muster:kuberay\.instal: is not a key .*\n.*did you mean 'install'"
    ):
        load(described(tmp_path, "gke-dev", kuberay={"instal": False}))


def test_install_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"muster:gpuOperator\.install.* must be true or false"):
        load(described(tmp_path, "gke-dev", gpuOperator={"install": "no"}))
