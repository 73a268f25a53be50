"""Amounts of pods are remembered by the object that they were read from, never by anything less."""

from fractions import Fraction

import pytest

from controller.gangs.demand import pod_amounts
from controller.gangs.objects import Container, PodSpec, ResourceNeeds


def _spec(cpu: str) -> PodSpec:
    return PodSpec(containers=(Container(resources=ResourceNeeds(requests={"cpu": cpu})),))


def test_every_spec_has_its_own_amounts_even_where_another_has_gone() -> None:
    # A spec that nobody holds any more may give its place in memory to the next.
    found = [pod_amounts(_spec(str(number)))["cpu"] for number in range(200)]
    assert found == [Fraction(number) for number in range(200)]


def test_a_bad_quantity_is_refused_each_time() -> None:
    spec = _spec("many")
    for _ in range(2):
        with pytest.raises(ValueError, match="many"):
            pod_amounts(spec)
