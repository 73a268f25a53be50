"""Names, addresses and records of local clusters."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.local import LocalClusterError
from muster.local.cluster.local_cluster import MAX_CLUSTERS, UPLINKS, Record, free_index, named

INDEXES = st.integers(min_value=0, max_value=MAX_CLUSTERS - 1)


@pytest.mark.parametrize("name", ["", "Default", "-a", "a-", "a" * 13, "../etc", "a b", "ä"])
def test_a_name_that_is_no_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(LocalClusterError, match="1 to 12 lower-case letters"):
        named(name, index=0)


@given(INDEXES, INDEXES)
def test_two_local_clusters_share_no_address_and_no_link(one: int, other: int) -> None:
    first, second = named("one", index=one), named("other", index=other)
    addresses = {first.address, first.host_address, second.address, second.host_address}
    assert len(addresses) == (2 if one == other else 4)
    assert (first.host_link == second.host_link) is (one == other)
    assert len(first.host_link) <= 15  # the kernel's limit for an interface's name


@given(st.frozensets(INDEXES, max_size=20), st.frozensets(INDEXES, max_size=20))
def test_a_free_index_is_neither_taken_nor_on_an_interface_of_the_host(
    taken: frozenset[int], occupied: frozenset[int]
) -> None:
    addresses = frozenset(named("x", index=index).host_address for index in occupied)
    chosen = free_index(taken, addresses | {"127.0.0.1", "192.0.2.7"})
    assert chosen not in taken | occupied
    assert all(lower in taken | occupied for lower in range(chosen))


def test_a_full_machine_says_what_to_do() -> None:
    with pytest.raises(LocalClusterError, match="muster local down"):
        free_index(frozenset(range(MAX_CLUSTERS)), frozenset())


def test_uplinks_stay_within_the_range_set_aside_for_benchmarks() -> None:
    last = named("last", index=MAX_CLUSTERS - 1)
    assert IPv4Address(last.address) in UPLINKS
    assert UPLINKS.subnet_of(IPv4Network("198.18.0.0/15"))


def test_a_record_is_read_back_as_written_and_a_damaged_one_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "plane.json"
    record = Record(index=3, init_pid=77, init_started=123456, boot_id="b")
    record.write(path)
    assert Record.read(path) == record
    path.write_text('{"index": 3')
    assert Record.read(path) is None
    assert Record.read(tmp_path / "absent.json") is None
