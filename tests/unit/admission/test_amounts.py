"""Amounts of pods are remembered by the object that they were read from, never by anything less."""

import gc
import tracemalloc
from fractions import Fraction

import pytest

from muster.controller.gangs.demand import pod_amounts
from muster.controller.gangs.objects import Container, PodSpec, ResourceNeeds, Toleration


def _spec(cpu: str) -> PodSpec:
    return PodSpec(containers=(Container(resources=ResourceNeeds(requests={"cpu": cpu})),))


def test_every_spec_has_its_own_amounts_even_where_another_has_gone() -> None:
    # A spec that nobody holds any more may give its place in memory to the next.
    found = [pod_amounts(_spec(str(number)))["cpu"] for number in range(200)]
    assert found == [Fraction(number) for number in range(200)]


def test_what_is_looked_at_again_is_not_read_again() -> None:
    spec = _spec("1")
    assert pod_amounts(spec) is pod_amounts(spec)


def test_a_spec_of_unusual_size_is_not_held_when_its_gang_is_gone() -> None:
    """Each version of a Workload is another spec: one that is large and changes often would fill memory."""

    def observe(number: int) -> None:
        tolerations = tuple(Toleration(key=f"{number}-{each}") for each in range(5000))
        spec = PodSpec(containers=_spec("2").containers, tolerations=tolerations)
        assert pod_amounts(spec) == {"cpu": 2}

    observe(0)
    tracemalloc.start()
    for number in range(1, 5):
        observe(number)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 200_000


def test_a_bad_quantity_is_refused_each_time() -> None:
    spec = _spec("many")
    for _ in range(2):
        with pytest.raises(ValueError, match="many"):
            pod_amounts(spec)
