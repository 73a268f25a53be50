"""Every combination of provider, accelerator, machine, GPUs and capacity is legal or refused for a reason.

What is legal is written down here once more, by hand and family by family, so that a slip in the tables does
not pass as a rule.
"""

import itertools
from collections.abc import Iterator

import pytest

from muster.model.accelerators import ACCELERATORS
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES, Machine, machines_of
from muster.model.providers import Provider
from muster.validation.machines import Choice, choice_rules

Q, F, D, S, R, B = (
    Capacity.QUEUED,
    Capacity.FLEX_START,
    Capacity.ON_DEMAND,
    Capacity.SPOT,
    Capacity.RESERVATION,
    Capacity.CAPACITY_BLOCK,
)

# machine or the beginning of its name -> accelerator, GPU counts, ways to buy it.
GKE = {
    "e2-": (None, {0}, {D, S, R}),
    "n2-": (None, {0}, {D, S, R}),
    "n1-": ("nvidia-tesla-t4", {0, 1, 2, 4}, {Q, D, S, R}),
    "g2-standard-24": ("nvidia-l4", {2}, {Q, D, S, R}),
    "g2-standard-48": ("nvidia-l4", {4}, {Q, D, S, R}),
    "g2-standard-96": ("nvidia-l4", {8}, {Q, D, S, R}),
    "g2-": ("nvidia-l4", {1}, {Q, D, S, R}),
    "a2-highgpu-1g": ("nvidia-tesla-a100", {1}, {Q, D, S, R}),
    "a2-highgpu-2g": ("nvidia-tesla-a100", {2}, {Q, D, S, R}),
    "a2-highgpu-4g": ("nvidia-tesla-a100", {4}, {Q, D, S, R}),
    "a2-highgpu-8g": ("nvidia-tesla-a100", {8}, {Q, D, S, R}),
    "a2-megagpu-16g": ("nvidia-tesla-a100", {16}, {Q, D, S, R}),
    "a2-ultragpu-1g": ("nvidia-a100-80gb", {1}, {Q, D, S, R}),
    "a2-ultragpu-2g": ("nvidia-a100-80gb", {2}, {Q, D, S, R}),
    "a2-ultragpu-4g": ("nvidia-a100-80gb", {4}, {Q, D, S, R}),
    "a2-ultragpu-8g": ("nvidia-a100-80gb", {8}, {Q, D, S, R}),
    "a3-highgpu-1g": ("nvidia-h100-80gb", {1}, {Q, S}),
    "a3-highgpu-2g": ("nvidia-h100-80gb", {2}, {Q, S}),
    "a3-highgpu-4g": ("nvidia-h100-80gb", {4}, {Q, S}),
    "a3-highgpu-8g": ("nvidia-h100-80gb", {8}, {Q, D, S, R}),
    "a3-megagpu-8g": ("nvidia-h100-mega-80gb", {8}, {Q, D, S, R}),
    "a3-ultragpu-8g": ("nvidia-h200-141gb", {8}, {Q, D, S, R}),
    "a4-highgpu-8g": ("nvidia-b200", {8}, {Q, D, S, R}),
    **{f"ct5lp-hightpu-{chips}t": ("tpu-v5-lite-podslice", {chips}, {Q, D, S, R}) for chips in (1, 4, 8)},
    "ct5p-hightpu-4t": ("tpu-v5p-slice", {4}, {Q, D, S, R}),
    **{f"ct6e-standard-{chips}t": ("tpu-v6e-slice", {chips}, {Q, D, S, R}) for chips in (1, 4, 8)},
}
EKS = {
    "m6i.": (None, {0}, {D, S, R}),
    "g4dn.12xlarge": ("nvidia-tesla-t4", {4}, {Q, D, S, R}),
    "g4dn.metal": ("nvidia-tesla-t4", {8}, {Q, D, S, R}),
    "g4dn.": ("nvidia-tesla-t4", {1}, {Q, D, S, R}),
    "g5.12xlarge": ("nvidia-a10g", {4}, {Q, D, S, R}),
    "g5.24xlarge": ("nvidia-a10g", {4}, {Q, D, S, R}),
    "g5.48xlarge": ("nvidia-a10g", {8}, {Q, D, S, R}),
    "g5.": ("nvidia-a10g", {1}, {Q, D, S, R}),
    "g6.12xlarge": ("nvidia-l4", {4}, {Q, D, S, R}),
    "g6.24xlarge": ("nvidia-l4", {4}, {Q, D, S, R}),
    "g6.48xlarge": ("nvidia-l4", {8}, {Q, D, S, R}),
    "g6.": ("nvidia-l4", {1}, {Q, D, S, R}),
    "p4d.24xlarge": ("nvidia-tesla-a100", {8}, {Q, D, S, R, B}),
    "p4de.24xlarge": ("nvidia-a100-80gb", {8}, {Q, D, S, R, B}),
    "p5.4xlarge": ("nvidia-h100-80gb", {1}, {Q, D, S, R, B}),
    "p5.48xlarge": ("nvidia-h100-80gb", {8}, {Q, D, S, R, B}),
    "p5e.48xlarge": ("nvidia-h200-141gb", {8}, {Q, D, S, R, B}),
    "p5en.48xlarge": ("nvidia-h200-141gb", {8}, {Q, D, S, R, B}),
    "p6-b200.48xlarge": ("nvidia-b200", {8}, {Q, D, S, R, B}),
}
LOCAL = {
    "local-cpu": (None, {0}, {Q, D}),
    "local-l4": ("nvidia-l4", {1}, {Q, D}),
    "local-h100": ("nvidia-h100-80gb", {1}, {Q, D}),
}
OF = {Provider.GKE: GKE, Provider.EKS: EKS, Provider.EXISTING: LOCAL}
# Legal as far as known, but without a source: a warning.
UNSOURCED = {
    *((name, way) for name in MACHINES if name.startswith(("ct5lp-", "ct5p-", "n1-")) for way in (Q, F)),
    *((name, Q) for name in MACHINES if name.startswith("ct6e-")),
    ("a3-ultragpu-8g", D),
    ("a4-highgpu-8g", D),
    ("p4de.24xlarge", B),
}
COUNTS = (None, 0, 1, 2, 3, 4, 8, 16)


def known(machine: Machine) -> tuple[str | None, set[int], set[Capacity]]:
    family = OF[machine.provider]
    accelerator, counts, ways = family.get(machine.name) or next(
        facts for start, facts in family.items() if machine.name.startswith(start)
    )
    # What can be queued for on GKE is given by flex-start without a queue as well.
    return accelerator, counts, ways | {F} if machine.provider is Provider.GKE and Q in ways else ways


def is_legal(choice: Choice) -> bool:
    """The rules in the fewest words, from the tables above."""
    machine = MACHINES[choice.machine]
    if choice.provider is not Provider.EXISTING and choice.provider is not machine.provider:
        return False
    accelerator, counts, ways = known(machine)
    ways = {Q, D} if choice.provider is Provider.EXISTING else ways
    # That only GPUs can be queued is a rule about pools, whatever their machine.
    if choice.capacity not in ways and not (choice.capacity is Q and accelerator is None):
        return False
    if choice.accelerator is not None:
        is_said = choice.gpus is not None or len(counts) == 1
        return choice.accelerator == accelerator and is_said and choice.gpus in (None, *(counts - {0}))
    return choice.gpus is None or choice.gpus in counts


def every_choice(provider: Provider) -> Iterator[Choice]:
    accelerators: tuple[str | None, ...] = (None, *ACCELERATORS)
    for machine, accelerator, gpus, capacity in itertools.product(MACHINES, accelerators, COUNTS, Capacity):
        yield Choice(
            provider=provider, machine=machine, accelerator=accelerator, gpus=gpus, capacity=capacity
        )


@pytest.mark.parametrize("provider", Provider)
def test_every_combination_is_legal_or_refused_with_its_rule_and_its_fix(provider: Provider) -> None:
    seen = 0
    for choice in every_choice(provider):
        found = choice_rules(choice, "muster:pools.p")
        errors = [each for each in found if each.level == "error"]
        assert bool(errors) is not is_legal(choice), choice
        assert all(each.path.startswith("muster:pools.p.") and each.message and each.fix for each in found)
        seen += 1
    assert seen == len(MACHINES) * (len(ACCELERATORS) + 1) * len(COUNTS) * len(Capacity)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_only_an_unsourced_capacity_is_a_warning(machine: Machine) -> None:
    for capacity in Capacity:
        choice = Choice(provider=machine.provider, machine=machine.name, capacity=capacity)
        warned = any(each.level == "warning" for each in choice_rules(choice, "p"))
        assert warned is ((machine.name, capacity) in UNSOURCED)


@pytest.mark.parametrize(
    ("choice", "path", "expected"),
    [
        (Choice(provider=Provider.GKE, machine="p5.48xlarge"), "machine", "of provider gke"),
        (Choice(provider=Provider.EKS, machine="g6.xlarge", capacity=B), "capacity", "not sold as"),
        (Choice(provider=Provider.GKE, machine="a3-highgpu-1g", capacity=D), "capacity", "a3-highgpu-8g"),
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
        (Choice(provider=Provider.EKS, machine="ct6e-standard-4t"), "machine", "no other cloud"),
    ],
)
def test_a_refusal_has_path_reason_and_fix(choice: Choice, path: str, expected: str) -> None:
    (found,) = [each for each in choice_rules(choice, "p") if each.level == "error"]
    assert found.path == f"p.{path}"
    assert expected in f"{found.message} {found.fix}"


def test_the_promised_machines_are_all_there_with_their_network() -> None:
    efa = {each.name: each.efa for each in MACHINES.values() if each.efa > 1}
    assert efa == {
        "p4d.24xlarge": 4,
        "p4de.24xlarge": 4,
        "p5.48xlarge": 32,
        "p5e.48xlarge": 32,
        "p5en.48xlarge": 16,
        "p6-b200.48xlarge": 8,
    }
    promised = {
        Provider.GKE: set(ACCELERATORS) - {"nvidia-a10g"},
        Provider.EKS: {name for name in ACCELERATORS if name.startswith("nvidia-")}
        - {"nvidia-h100-mega-80gb"},
    }
    for provider, accelerators in promised.items():
        there = {each.accelerator for each in MACHINES.values() if each.provider is provider}
        assert there == {None, *accelerators}


def test_an_unknown_machine_is_answered_with_the_nearest_few_and_with_what_lists_all() -> None:
    (found,) = choice_rules(Choice(provider=Provider.GKE, machine="g2-standard-9"), "muster:pools.l4")
    listed = found.fix.partition("Allowed: ")[2].partition(" and ")[0].split(", ")
    assert len(listed) == 5
    assert {"g2-standard-4", "g2-standard-96"} <= {*listed}
    others = len(machines_of(Provider.GKE)) - len(listed)
    assert found.fix.endswith(f" and {others} others; see `muster explain pools.machine`.")
