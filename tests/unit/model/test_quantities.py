"""Amounts are read as Kubernetes reads them and written as Kubernetes would write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.quantities import (
    MIB,
    Bytes,
    Millicores,
    format_count,
    format_cpu,
    format_memory,
    parse_cpu,
    parse_memory,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "millis"),
    [("4", 4000), ("500m", 500), ("1.5", 1500), (".5", 500), ("2k", 2_000_000), ("1e2", 100_000)],
)
def test_cpu_is_read_as_kubernetes_reads_it(text: str, millis: int) -> None:
    assert parse_cpu(text) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [("1Ki", 1024), ("1k", 1000), ("1.5Gi", 1536 * MIB), ("128974848", 128974848), ("129e6", 129_000_000)],
)
def test_memory_is_read_as_kubernetes_reads_it(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "4 ", "-1", "4x", "1.2.3", "Gi", "4gi", "1e", "0x4", "٤"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)


def test_what_is_finer_than_a_millicore_or_a_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="thousandth"):
        parse_cpu("0.0001")
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_memory("0.5")


@given(st.integers(0, 10**12).map(Millicores))
def test_cpu_survives_writing_and_reading(cpu: Millicores) -> None:
    assert parse_cpu(format_cpu(cpu)) == cpu


@given(st.integers(0, 2**30))
def test_whole_mebibytes_survive_writing_and_reading(mebibytes: int) -> None:
    assert parse_memory(format_memory(Bytes(mebibytes * MIB))) == mebibytes * MIB


# What k8s.io/apimachinery's Quantity.String gives for the same amount: anything else is drift as soon as a
# Go controller writes the object.
@pytest.mark.parametrize(
    ("cpu", "written"),
    [(0, "0"), (500, "500m"), (1000, "1"), (1500, "1500m"), (1_000_000, "1k"), (1_500_000, "1500")],
)
def test_cpu_is_written_canonically(cpu: int, written: str) -> None:
    assert format_cpu(Millicores(cpu)) == written


@pytest.mark.parametrize(
    ("mebibytes", "written"), [(0, "0"), (768, "768Mi"), (1024, "1Gi"), (1536, "1536Mi"), (1024**2, "1Ti")]
)
def test_memory_is_written_canonically(mebibytes: int, written: str) -> None:
    assert format_memory(Bytes(mebibytes * MIB)) == written


@pytest.mark.parametrize(
    ("count", "written"), [(0, "0"), (8, "8"), (1000, "1k"), (1001, "1001"), (2_000_000, "2M")]
)
def test_counts_are_written_canonically(count: int, written: str) -> None:
    assert format_count(count) == written
