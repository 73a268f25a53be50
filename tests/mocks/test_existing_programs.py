"""What a cluster already has, against what a stack installs or leaves out."""

from typing import Any

import pytest

from muster.components.existing_programs import IncompatibleProgramError, refuse
from muster.model.programs import PLACEMENTS, Program


def deployment(namespace: str, image: str, *, version: str = "") -> dict[str, Any]:
    labels = {"app.kubernetes.io/version": version} if version else {}
    containers = [{"image": image}]
    return {
        "metadata": {"namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


@pytest.mark.parametrize("program", Program)
def test_a_program_that_is_not_there_is_installed(program: Program) -> None:
    refuse(program, [], installs=True)


@pytest.mark.parametrize("program", Program)
def test_musters_own_release_is_left_to_its_upgrade(program: Program) -> None:
    refuse(program, [deployment(PLACEMENTS[program].namespace, "x/y:v25.3.1")], installs=True)


@pytest.mark.parametrize("program", Program)
def test_a_second_installation_is_refused_with_both_ways_out(program: Program) -> None:
    placement = PLACEMENTS[program]
    found = [deployment("theirs", "x/y:v25.3.1")]
    with pytest.raises(IncompatibleProgramError) as refused:
        refuse(program, found, installs=True)
    message = str(refused.value)
    assert f"another {placement.title} (25.3.1 in namespace theirs)" in message
    assert "Fix: remove it" in message
    assert f"`{placement.key}.install: false`" in message


def test_an_old_kueue_of_our_own_is_refused_because_its_queues_would_not_survive() -> None:
    with pytest.raises(IncompatibleProgramError, match=r"Kueue 0\.15\.2 .* needs 0\.19\.0 or newer"):
        refuse(Program.KUEUE, [deployment("kueue-system", "x/kueue:v0.15.2")], installs=True)


@pytest.mark.parametrize("program", Program)
def test_a_program_that_is_left_out_has_to_be_there(program: Program) -> None:
    with pytest.raises(
        IncompatibleProgramError, match=r"`muster:[A-Za-z]+\.install` is false, and the cluster"
    ):
        refuse(program, [], installs=False)


@pytest.mark.parametrize(
    ("program", "version"),
    [
        (Program.KUEUE, "0.18.1"),
        (Program.KAI, "0.16.0"),
        (Program.KUBERAY, "1.4.2"),
        (Program.GPU_OPERATOR, "25.3.0"),
    ],
)
def test_a_program_that_is_left_out_has_to_be_of_a_version_that_works(program: Program, version: str) -> None:
    namespace = PLACEMENTS[program].namespace
    for image in (f"x/y:v{version}", "x/y:latest"):
        with pytest.raises(IncompatibleProgramError, match=r"or newer\. Fix: upgrade it"):
            refuse(program, [deployment(namespace, image)], installs=False)
    refuse(program, [deployment(namespace, "x/y@sha256:00", version="v25.10.0")], installs=False)


def test_policies_know_kuberay_by_its_namespace() -> None:
    with pytest.raises(IncompatibleProgramError, match="recognise it by namespace ray-system"):
        refuse(Program.KUBERAY, [deployment("kuberay", "x/operator:v1.6.2")], installs=False)
    refuse(Program.GPU_OPERATOR, [deployment("nvidia", "x/gpu-operator:v25.10.0")], installs=False)


def test_two_of_a_program_that_is_left_out_are_refused() -> None:
    both = [deployment(namespace, "x/operator:v1.6.2") for namespace in ("ray-system", "other")]
    with pytest.raises(IncompatibleProgramError, match="2 installations of KubeRay"):
        refuse(Program.KUBERAY, both, installs=False)
