"""The reflector against an API server that misbehaves: whatever happens, the store ends up equal to the
truth.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.controller.kube.client import RawPage, Selection
from muster.controller.kube.reflector import IDLE_TIMEOUT, HistoryReplaced, Reflector
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.controller.runtime.store import Store
from tests.length import examples
from tests.unit.controller_kube.fake_apiserver import DEEP, FakeApiServer, Fault
from tests.unit.controller_runtime.virtual import named_after, now, virtual


class ThingSpec(Partial, frozen=True):
    size: int = 0
    text: str = ""


class Thing(Object, frozen=True):
    spec: ThingSpec = ThingSpec()


THING = Resource("test.dev", "v1", "things", "Thing", namespaced=True, type=Thing)


class Notes:
    """A watcher that remembers, and a listener that checks that the tellings make one coherent story."""

    def __init__(self) -> None:
        self.relists: list[str] = []
        self.failures: list[Exception] = []
        self.told: dict[Key, Thing] = {}
        self.dead: set[str] = set()
        self.count = 0
        self.when_heard: Callable[[], None] = lambda: None

    def event(self, kind: str) -> None: ...

    def heard(self) -> None:
        self.when_heard()

    def relisted(self, reason: str, count: int) -> None:
        self.relists.append(reason)

    def opened(self) -> None: ...

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def listen(self, before: Thing | None, after: Thing | None) -> None:
        self.count += 1
        some = after or before
        assert some is not None
        assert self.told.get(some.key) is before, "a telling does not start where the last one ended"
        if before is not None and after is not None:
            assert before.metadata.uid == after.metadata.uid
            assert int(before.metadata.resource_version) < int(after.metadata.resource_version), (
                "told backwards"
            )
        if after is None:
            assert before is not None
            self.dead.add(before.metadata.uid)
            del self.told[some.key]
        else:
            assert after.metadata.uid not in self.dead, "told alive again after its death"
            self.told[some.key] = after


class Rig:
    """One server, one reflector, one store."""

    def __init__(self, server: FakeApiServer, *, page: int = 3, selection: Selection | None = None) -> None:
        self.server, self.notes = server, Notes()
        self.store: Store[Thing] = Store()
        self.store.listen(self.notes.listen)
        self.client = server.client()
        self.reflector = Reflector(
            self.client, THING, self.store, watcher=self.notes, page=page, selection=selection
        )

    def agrees(self) -> bool:
        truth = {
            Key(namespace, name): manifest["metadata"]["resourceVersion"]
            for (_, namespace, name), manifest in self.server.objects.items()
        }
        return {obj.key: obj.metadata.resource_version for obj in self.store} == truth

    async def until(self, condition: Callable[[], bool], *, within: float = 1000) -> None:
        async with asyncio.timeout(within):
            while not condition():
                await asyncio.sleep(3)


def against(
    *,
    things: Sequence[dict[str, Any]] = (),
    lists: Sequence[Fault] = (),
    watch: Sequence[Fault] = (),
    selection: Selection | None = None,
) -> Callable[[Callable[[Rig], Awaitable[None]]], Callable[[], None]]:
    """A scenario on virtual time beside a running reflector, which must survive it."""

    def decorated(scenario: Callable[[Rig], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            async with FakeApiServer().running() as server:
                for each in things:
                    server.put("things", copy.deepcopy(each))
                server.list_faults.extend(lists)
                server.watch_faults.extend(watch)
                rig = Rig(server, selection=selection)
                following = asyncio.ensure_future(rig.reflector.run())
                try:
                    await scenario(rig)
                    assert not following.done(), "the reflector gave up"
                finally:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
                    await rig.client.close()

        return named_after(scenario, lambda: virtual(run()))

    return decorated


def thing(name: str, namespace: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def deep(name: str, **spec: Any) -> dict[str, Any]:
    """A thing with managedFields, which no type names, of the deepest nesting."""
    manifest = thing(name, **spec)
    manifest["metadata"]["managedFields"] = [{"fieldsV1": DEEP}]
    return manifest


@against(things=[thing(f"t{number}") for number in range(10)])
async def test_a_collection_of_several_pages_is_read_whole_and_then_followed(rig: Rig) -> None:
    await rig.until(rig.agrees)
    rig.server.put("things", thing("new", size=3))
    rig.server.drop(("things", "a", "t4"))
    await rig.until(rig.agrees)
    assert rig.notes.relists == ["start"]
    held = rig.store.get(Key("a", "new"))
    assert held is not None
    assert held.spec.size == 3


def test_the_server_makes_the_next_page_while_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start over tens of thousands of objects takes as long as the slower of the two, not as both."""
    asked, asked_when_read = 0, list[int]()

    async def scenario() -> None:
        async with FakeApiServer().running() as server:
            for number in range(3):
                server.put("things", thing(f"t{number}"))
            rig = Rig(server, page=1)
            pages = rig.client.pages

            async def counted(*which: Any, size: int) -> AsyncGenerator[RawPage, None]:
                nonlocal asked
                async with aclosing(pages(*which, size=size)) as listed:
                    asked += 1
                    async for page in listed:
                        yield page
                        asked += 1

            monkeypatch.setattr(rig.client, "pages", counted)
            rig.notes.when_heard = lambda: asked_when_read.append(asked)
            running = asyncio.ensure_future(rig.reflector.run())
            await rig.until(lambda: len(rig.store) == 3)
            running.cancel()

    virtual(scenario())
    assert asked_when_read[:2] == [2, 3]


@against()
async def test_a_watch_that_the_server_ends_is_resumed_without_a_list(rig: Rig) -> None:
    await rig.until(rig.agrees)
    await asyncio.sleep(3600)
    rig.server.put("things", thing("late"))
    await rig.until(rig.agrees)
    assert rig.notes.relists == ["start"]
    assert rig.notes.failures == []


@against()
async def test_bookmarks_carry_a_quiet_watch_over_a_compaction(rig: Rig) -> None:
    await rig.until(lambda: bool(rig.notes.relists))
    for number in range(5):
        rig.server.put("others", {"metadata": {"name": f"o{number}"}})
    await asyncio.sleep(130)
    rig.server.compact()
    await asyncio.sleep(3600)
    assert rig.notes.relists == ["start"]


@pytest.mark.parametrize("fault", ["410", "error"])
def test_an_expired_watch_is_listed_again_and_missed_deletes_are_told(fault: str) -> None:
    @against(things=[thing("stays"), thing("goes")], watch=[Fault("stall"), Fault(fault)])
    async def scenario(rig: Rig) -> None:
        await rig.until(rig.agrees)
        rig.server.drop(("things", "a", "goes"))
        rig.server.put("things", thing("comes"))
        await rig.until(rig.agrees)
        assert rig.notes.relists == ["start", "expired"]
        assert Key("a", "goes") not in rig.notes.told

    scenario()


@against(watch=[Fault("stall")])
async def test_silence_ends_a_half_open_connection(rig: Rig) -> None:
    await rig.until(lambda: rig.server.watches_open > 0)
    started = now()
    rig.server.put("things", thing("unheard"))
    await rig.until(rig.agrees)
    assert now() - started == pytest.approx(IDLE_TIMEOUT, abs=5)


@against(watch=[Fault("stall")] * 8)
async def test_a_quiet_watch_that_breaks_again_and_again_is_resumed_at_once_each_time(rig: Rig) -> None:
    """A proxy that ends what is silent for less than a bookmark takes must not make us deaf in between."""
    times = 8
    await rig.until(lambda: rig.server.watches_open > 0)
    started = now()
    await rig.until(lambda: len(rig.notes.failures) == times, within=times * 200)
    assert now() - started == pytest.approx(times * IDLE_TIMEOUT, abs=times + 5)


@against()
async def test_an_object_of_several_mebibytes_passes(rig: Rig) -> None:
    await rig.until(lambda: rig.server.watches_open > 0)
    rig.server.put("things", thing("big", text="x" * (3 * 1024 * 1024)))
    await rig.until(rig.agrees)


@against(things=[thing("good"), thing("bad", size="not a number")])
async def test_an_object_that_does_not_decode_costs_only_itself(rig: Rig) -> None:
    bad = Key("a", "bad")
    await rig.until(lambda: rig.store.get(Key("a", "good")) is not None)
    assert "size" in (rig.store.unreadable(bad) or "")
    rig.server.put("things", thing("bad", size=1))
    await rig.until(lambda: rig.store.get(bad) is not None)
    assert rig.store.unreadable(bad) is None
    rig.server.put("things", thing("bad", size=[]))
    rig.server.put("things", thing("after"))
    await rig.until(lambda: rig.store.get(Key("a", "after")) is not None)
    assert rig.store.unreadable(bad) is not None
    held = rig.store.get(bad)
    assert held is not None
    assert held.spec.size == 1, "the last form that did decode stays"
    rig.server.drop(("things", "a", "bad"))
    await rig.until(rig.agrees)
    assert rig.store.unreadable(bad) is None
    assert rig.notes.relists == ["start"]


@against(things=[thing("good"), deep("listed", size=1), thing("bad", size=DEEP)])
async def test_an_object_of_the_deepest_nesting_is_read_like_any_other(rig: Rig) -> None:
    """In what no type names, as managedFields; where a type names it, it costs only itself."""
    bad = Key("a", "bad")
    await rig.until(lambda: rig.store.get(Key("a", "good")) is not None)
    assert rig.store.get(Key("a", "listed")) == await rig.client.get(THING, Key("a", "listed"))
    assert "size" in (rig.store.unreadable(bad) or "")
    rig.server.put("things", deep("watched"))
    rig.server.drop(("things", "a", "bad"))
    await rig.until(rig.agrees)
    assert rig.notes.relists == ["start"]
    assert rig.notes.failures == []


@against(things=[thing("bad", size=1)], watch=[Fault("stall")])
async def test_a_relist_does_not_bury_an_object_only_because_it_does_not_decode(rig: Rig) -> None:
    await rig.until(rig.agrees)
    rig.server.put("things", thing("bad", size="x"))
    rig.server.compact()
    await rig.until(lambda: rig.notes.relists == ["start", "expired"])
    assert rig.store.get(Key("a", "bad")) is not None
    assert rig.store.unreadable(Key("a", "bad")) is not None


@against(things=[thing("stays")], lists=[Fault("none"), Fault("stale")], watch=[Fault("410")])
async def test_one_stale_list_is_not_believed(rig: Rig) -> None:
    await rig.until(lambda: len(rig.notes.relists) == 2)
    assert rig.agrees()
    assert not rig.notes.dead


@against(things=[thing(f"t{number}") for number in range(8)], watch=[Fault("410")])
async def test_what_we_write_while_a_list_is_read_outlives_the_list(rig: Rig) -> None:
    """The list was begun before the write, which is in the cache at once: it is missing from the list, and
    what the watch says of it afterwards must count.
    """

    def write() -> None:
        if rig.notes.relists == ["start"] and rig.store.get(mine) is None:
            rig.store.add(msgspec.convert(rig.server.put("things", thing("mine")), Thing))

    mine = Key("a", "mine")
    rig.notes.when_heard = write
    await rig.until(lambda: rig.notes.relists == ["start", "expired"])
    await rig.until(rig.agrees)
    assert not rig.notes.dead
    rig.server.put("things", thing("mine", size=2))
    await rig.until(rig.agrees)


@against(
    things=[thing("x")],
    watch=[Fault("cut")] * 2,
    selection=Selection(labels="app", fields="metadata.name!=x"),
)
async def test_a_failed_watch_makes_the_server_search_for_nothing(rig: Rig) -> None:
    """A list of one object with a selector reads all objects before the first that it fits."""
    rig.server.put("things", thing("y"))
    await rig.until(lambda: len(rig.server.lists) > 1)
    _, *checks = rig.server.lists
    assert all(each == {"limit": "1"} for each in checks)
    await rig.until(rig.agrees)


@against(watch=[Fault("too large")])
async def test_a_version_that_the_server_calls_too_large_is_listed_again(rig: Rig) -> None:
    await rig.until(lambda: rig.notes.relists == ["start", "expired"])


@pytest.mark.parametrize("restored", [Fault("none"), Fault("stall")])
def test_an_etcd_restored_from_a_backup_is_noticed(restored: Fault) -> None:
    """Our watch is accepted, and then gets bookmarks from before where we are, or nothing at all."""

    def prepare(server: FakeApiServer) -> None:
        for number in range(50):
            server.put("things", thing(f"t{number}"))
        server.watch_faults.extend([restored] * 20)

    async def scenario(rig: Rig) -> None:
        await rig.until(rig.agrees)
        rig.server.objects.clear()
        rig.server.history.clear()
        rig.server.version = 1
        rig.server.put("things", thing("t0", size=7))

    _ends_with_its_history(scenario, prepare=prepare)


def test_an_etcd_restored_with_its_versions_raised_is_noticed() -> None:
    """As `etcdutl snapshot restore --bump-revision` does it: every watch is too old, and no list is."""

    def prepare(server: FakeApiServer) -> None:
        server.put("things", thing("changed"))
        server.watch_faults.append(Fault("end", after=1))

    async def scenario(rig: Rig) -> None:
        await rig.until(rig.agrees)
        backup = copy.deepcopy(rig.server.objects)
        rig.server.put("things", thing("changed", size=7))
        await rig.until(rig.agrees)
        rig.server.objects = backup
        rig.server.history.clear()
        rig.server.version += 1000
        rig.server.compact()
        rig.server.put("things", thing("new"))

    _ends_with_its_history(scenario, prepare=prepare)


def _ends_with_its_history(
    scenario: Callable[[Rig], Awaitable[None]], *, prepare: Callable[[FakeApiServer], None]
) -> None:
    async def run() -> None:
        async with FakeApiServer().running() as server:
            prepare(server)
            rig = Rig(server)
            following = asyncio.ensure_future(rig.reflector.run())
            await scenario(rig)
            with pytest.raises(HistoryReplaced):
                await following
            await rig.client.close()

    virtual(run())


@against(things=[thing("x")], lists=[Fault("429")])
async def test_retry_after_of_a_busy_server_is_honoured(rig: Rig) -> None:
    await rig.until(rig.agrees)
    assert now() >= 3


@against(things=[thing("x")], lists=[Fault("a day")])
async def test_a_server_that_wants_to_rest_for_a_day_is_asked_again_after_a_minute(rig: Rig) -> None:
    await rig.until(rig.agrees, within=90)
    assert now() >= 60


LIST_FAULTS = st.sampled_from([Fault("none"), Fault("500"), Fault("429"), Fault("410"), Fault("stale")])
WATCH_FAULTS = st.builds(
    Fault,
    st.sampled_from(["410", "replay", "replay", "replay", "cut", "error", "end", "stall", "swap", "twice"]),
    st.integers(0, 6),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "drop", "compact", "wait", "wait", "long wait"]),
        st.sampled_from([("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")]),
    ),
    max_size=25,
)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=STEPS,
    list_faults=st.lists(LIST_FAULTS, max_size=5),
    watch_faults=st.lists(WATCH_FAULTS, max_size=8),
)
def test_whatever_happens_the_store_ends_up_equal_to_the_truth(
    steps: list[tuple[str, tuple[str, str]]], list_faults: list[Fault], watch_faults: list[Fault]
) -> None:
    # Two stale lists in a row would be an etcd restored from a backup, which is another story.
    lists = [fault for fault in list_faults if fault.name != "stale"]
    if Fault("stale") in list_faults:
        lists.insert(list_faults.index(Fault("stale")), Fault("stale"))

    @against(lists=lists, watch=watch_faults)
    async def scenario(rig: Rig) -> None:
        await asyncio.sleep(1)
        for step, (namespace, name) in steps:
            await asyncio.sleep(0.01)
            address = ("things", namespace, name)
            if step == "put":
                rig.server.put("things", thing(name, namespace, size=rig.server.version))
            elif step == "drop" and address in rig.server.objects:
                rig.server.drop(address)
            elif step == "compact":
                rig.server.compact()
            elif step == "wait":
                await asyncio.sleep(1)
            elif step == "long wait":
                await asyncio.sleep(20)
        await rig.until(rig.agrees, within=10_000)

    scenario()
