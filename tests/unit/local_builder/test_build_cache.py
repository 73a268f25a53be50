"""The cache: an entry is whole or absent, and what is damaged is noticed."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.local import LocalClusterError
from muster.local.builder.cache import SUMS, Cache, Entry, cache_root, census, key_of
from tests.waiting import PATIENCE


def published(cache: Cache, name: str = "thing", key: str = "k", content: str = "one") -> Entry:
    entry = cache.entry("bin", name, key)
    with cache.scratch(name) as scratch:
        tree = scratch / "tree"
        (tree / "deep").mkdir(parents=True)
        (tree / "file").write_text(content)
        (tree / "deep" / "other").write_text("other")
        cache.publish(entry, tree)
    return entry


def test_a_published_entry_is_there_whole(tmp_path: Path) -> None:
    entry = published(Cache(tmp_path))
    assert entry.exists
    assert entry.fault() is None
    assert (entry.path / "deep" / "other").read_text() == "other"


def test_an_entry_without_its_checksums_does_not_exist(tmp_path: Path) -> None:
    entry = published(Cache(tmp_path))
    (entry.path / SUMS).unlink()
    assert not entry.exists


@pytest.mark.parametrize("damage", ["changed", "truncated", "removed"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    entry = published(Cache(tmp_path))
    victim = entry.path / "deep" / "other"
    if damage == "removed":
        victim.unlink()
    else:
        victim.write_text("Other" if damage == "changed" else "")
    assert "deep/other" in (entry.fault() or "")


def test_a_damaged_part_is_refused_and_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    entry = published(cache)
    (entry.path / "file").write_text("two")
    with pytest.raises(LocalClusterError, match=r"damaged.*start again"):
        cache.usable(entry, what="the thing")
    assert not entry.path.exists()


def test_publishing_again_replaces_the_entry(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    published(cache, content="one")
    assert (published(cache, content="two").path / "file").read_text() == "two"


def test_the_newest_entries_of_a_name_stay_and_older_ones_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for age in range(5, 0, -1):
        entry = published(cache, key=f"k{age}")
        os.utime(entry.path, (1_000_000 - age, 1_000_000 - age))
    newest = published(cache, key="now")
    left = {path.name for path in newest.path.parent.iterdir()}
    assert left == {"now", "k1", "k2"}


def test_another_name_loses_nothing_when_entries_are_forgotten(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    other = published(cache, name="other")
    for number in range(5):
        published(cache, key=f"k{number}")
    assert other.exists


def test_a_scratch_directory_is_gone_after_a_failure(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def fail() -> None:
        with cache.scratch("x") as scratch:
            (scratch / "file").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_a_killed_build_left_is_swept_and_a_running_one_is_not(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    killed, running = cache.make("scratch", "killed"), cache.make("scratch", "running")
    os.utime(killed, (1_000_000, 1_000_000))
    with cache.scratch("x"):
        assert not killed.exists()
        assert running.exists()


def test_a_lock_lets_the_second_in_only_after_the_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    order: list[str] = []
    waits = threading.Event()

    def second() -> None:
        with Cache(tmp_path).lock("name", waiting=waits.set):
            order.append("second")

    with cache.lock("name"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(PATIENCE)
        order.append("first")
    thread.join(PATIENCE)
    assert order == ["first", "second"]


def test_waiting_for_a_lock_ends_when_the_build_is_stopped(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    stopping = threading.Event()
    stopping.set()
    with (
        cache.lock("name"),
        pytest.raises(LocalClusterError, match="stopped"),
        Cache(tmp_path).lock("name", stopping=stopping),
    ):
        pass


def test_a_root_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalClusterError, match="MUSTER_CACHE"):
        Cache(tmp_path / "file").make("bin")


def test_the_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MUSTER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "muster"
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"


def test_a_census_notices_a_missing_and_a_grown_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    whole = census(tmp_path)
    (tmp_path / "a").write_text("aa")
    grown = census(tmp_path)
    (tmp_path / "a").unlink()
    assert len({whole, grown, census(tmp_path)}) == 3


@given(st.lists(st.text()), st.lists(st.text()))
def test_different_parts_have_different_keys(left: list[str], right: list[str]) -> None:
    assert (key_of(*left) == key_of(*right)) == (left == right)
