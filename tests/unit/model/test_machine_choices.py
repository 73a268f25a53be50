"""What a pool may be made of and how that may be bought: each refusal says where, why, and what to write."""

import pytest

from muster.model.capacity import Capacity
from muster.model.machines import MACHINES, machines_of, similar_machines
from muster.model.regions import Provider
from muster.validation.machines import Choice, choice_rules

D, B, Q, R = Capacity.ON_DEMAND, Capacity.CAPACITY_BLOCK, Capacity.QUEUED, Capacity.RESERVATION


@pytest.mark.parametrize(
    ("choice", "path", "expected"),
    [
        (Choice(provider=Provider.GKE, machine="p5.48xlarge"), "machine", "a3-highgpu-8g"),
        (Choice(provider=Provider.EKS, machine="a4x-maxgpu-4g-metal"), "machine", "has none with"),
        (Choice(provider=Provider.EKS, machine="g6.xlarge", capacity=B), "capacity", "not sold as"),
        (Choice(provider=Provider.GKE, machine="a3-highgpu-1g", capacity=D), "capacity", "a3-highgpu-8g"),
        (Choice(provider=Provider.GKE, machine="a4x-highgpu-4g", capacity=D), "capacity", "as reservation"),
        (Choice(provider=Provider.GKE, machine="g2-standard-4", capacity=B), "capacity", "does not exist"),
        (
            Choice(provider=Provider.EKS, machine="g6.xlarge", accelerator="nvidia-h100-mega-80gb"),
            "accelerator",
            "no machine with it",
        ),
        (
            Choice(provider=Provider.EKS, machine="g6.xlarge", accelerator="nvidia-b200"),
            "accelerator",
            "p6-b200.48xlarge",
        ),
        (Choice(provider=Provider.GKE, machine="n1-standard-4", gpus=3), "gpusPerNode", "1, 2, 4"),
        (Choice(provider=Provider.EKS, machine="g5.xlarge", gpus=0), "gpusPerNode", "1"),
        (
            Choice(provider=Provider.GKE, machine="n1-standard-4", accelerator="t4"),
            "gpusPerNode",
            "carry several",
        ),
        (Choice(provider=Provider.EKS, machine="ct6e-standard-4t"), "machine", "no other cloud"),
    ],
)
def test_a_refusal_has_path_reason_and_fix(choice: Choice, path: str, expected: str) -> None:
    (found,) = [each for each in choice_rules(choice, "p") if each.level == "error"]
    assert found.path == f"p.{path}"
    assert expected in f"{found.message} {found.fix}"


@pytest.mark.parametrize(
    "choice",
    [
        Choice(provider=Provider.GKE, machine="n1-standard-4"),
        Choice(provider=Provider.GKE, machine="n1-standard-4", accelerator="t4", gpus=2),
        Choice(provider=Provider.GKE, machine="g4-standard-96", accelerator="rtx-pro-6000", gpus=2),
        Choice(provider=Provider.EKS, machine="g6e.12xlarge", accelerator="l40s", gpus=4, capacity=Q),
        Choice(provider=Provider.EKS, machine="trn2.48xlarge", accelerator="trainium2", capacity=B),
        Choice(provider=Provider.EKS, machine="m8g.4xlarge", capacity=R),
        # Muster does not buy the nodes of an existing cluster: any cloud's machine, as it comes.
        Choice(provider=Provider.EXISTING, machine="p5.48xlarge"),
        Choice(provider=Provider.EXISTING, machine="a3-highgpu-1g", capacity=D),
    ],
)
def test_what_people_buy_is_legal(choice: Choice) -> None:
    assert choice_rules(choice, "p") == []


def test_a_capacity_that_no_page_confirms_is_a_warning() -> None:
    choice = Choice(provider=Provider.EKS, machine="p4de.24xlarge", capacity=B)
    (found,) = choice_rules(choice, "p")
    assert (found.level, found.path) == ("warning", "p.capacity")


def test_an_unknown_machine_is_answered_with_the_nearest_few_and_with_what_lists_all() -> None:
    (found,) = choice_rules(Choice(provider=Provider.EKS, machine="m6j.large"), "muster:pools.cpu")
    listed = found.fix.partition("Allowed: ")[2].partition(" and ")[0].split(", ")
    assert len(listed) == 5
    assert "m6i.large" in listed
    assert "`node: {cpu: ..., memory: ...}` beside `machine`" in found.fix
    assert found.fix.endswith(" others; see `muster machines`.")


@pytest.mark.parametrize(
    ("provider", "word"),
    [
        (Provider.EKS, "g6f.12xlarge"),
        (Provider.EKS, "p7-r100.48xlarge"),
        (Provider.EKS, "u-p6e-gb200x72"),
        (Provider.EKS, "g4ad.4xlarge"),
        (Provider.GKE, "a5x-highgpu-4g"),
        (Provider.GKE, "a3-edgegpu-8g"),
        (Provider.GKE, "ct3p-hightpu-4t"),
    ],
)
def test_other_hardware_is_no_suggestion_however_alike_its_name(provider: Provider, word: str) -> None:
    (found,) = choice_rules(Choice(provider=provider, machine=word), "p")
    assert found.fix == "describe it by `node: {cpu: ..., memory: ...}` beside `machine`."


@pytest.mark.parametrize(
    ("provider", "word", "meant"),
    [
        (Provider.EKS, "p5.48xlarg", "p5.48xlarge"),
        (Provider.EKS, "M6i.2xlarge", "m6i.2xlarge"),
        (Provider.GKE, "e2-standrad-4", "e2-standard-4"),
        (Provider.GKE, "g2-standrad-4", "g2-standard-4"),
    ],
)
def test_a_slip_of_the_pen_is_answered(provider: Provider, word: str, meant: str) -> None:
    (found,) = choice_rules(Choice(provider=provider, machine=word), "p")
    assert f"did you mean {meant!r}?" in found.fix


@pytest.mark.parametrize("provider", [Provider.GKE, Provider.EKS])
def test_what_is_offered_for_any_word_never_mixes_accelerators(provider: Provider) -> None:
    known = machines_of(provider)
    for name in known:
        offered = similar_machines(f"{name[:-1]}?", known)
        carried = {MACHINES[each].accelerator for each in offered}
        assert carried <= {MACHINES[name].accelerator, None}
