"""The store makes one coherent story of what it is told, however often and in whichever order that is
repeated.
"""

from collections.abc import Hashable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.kube.reflector import HistoryReplaced
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.controller.runtime.store import Store
from tests.length import examples


class Spec(Partial, frozen=True):
    queue: str = ""


class Thing(Object, frozen=True):
    spec: Spec = Spec()


THING = Resource(
    "test.dev", "v1", "things", "Thing", namespaced=True, type=Thing, annotation_prefixes=("muster.dev/",)
)


def thing(name: str, *, uid: str, version: int, queue: str = "") -> Thing:
    manifest = {
        "metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": str(version)},
        "spec": {"queue": queue},
    }
    return msgspec.convert(manifest, Thing)


def queues(obj: Thing) -> list[Hashable]:
    return [obj.spec.queue] if obj.spec.queue else []


class Story:
    """A listener that refuses an incoherent story."""

    def __init__(self) -> None:
        self.alive: dict[Key, Thing] = {}
        self.dead: set[str] = set()

    def listen(self, before: Thing | None, after: Thing | None) -> None:
        some = after or before
        assert some is not None
        assert self.alive.get(some.key) is before
        if before is not None and after is not None:
            assert before.metadata.uid == after.metadata.uid
            assert int(before.metadata.resource_version) < int(after.metadata.resource_version)
        if after is None:
            self.dead.add(some.metadata.uid)
            del self.alive[some.key]
        else:
            assert after.metadata.uid not in self.dead
            self.alive[some.key] = after


def test_an_index_follows_a_change_and_a_deletion() -> None:
    store: Store[Thing] = Store(indexes={"queue": queues})
    store.put(thing("x", uid="1", version=1, queue="q"))
    store.put(thing("y", uid="2", version=2, queue="q"))
    assert [obj.metadata.name for obj in store.by_index("queue", "q")] == ["x", "y"]
    assert store.counts("queue") == {"q": 2}
    store.put(thing("x", uid="1", version=3, queue="r"))
    assert store.counts("queue") == {"q": 1, "r": 1}
    store.remove(thing("y", uid="2", version=4))
    assert store.by_index("queue", "q") == []
    assert store.index_values("queue") == ["r"]
    found = store.by_uid("1")
    assert found is not None
    assert found.spec.queue == "r"
    assert store.by_uid("2") is None


def test_a_successor_of_the_same_name_is_told_as_a_death_and_a_birth() -> None:
    store: Store[Thing] = Store()
    story = Story()
    store.listen(story.listen)
    store.put(thing("x", uid="old", version=1))
    store.put(thing("x", uid="new", version=5))
    assert story.dead == {"old"}
    assert store.by_uid("old") is None
    store.put(thing("x", uid="old", version=3))
    held = store.get(Key("a", "x"))
    assert held is not None
    assert held.metadata.uid == "new"


def test_a_late_death_of_a_predecessor_leaves_the_successor_alone() -> None:
    store: Store[Thing] = Store()
    store.put(thing("x", uid="new", version=5))
    store.remove(thing("x", uid="old", version=4))
    assert store.get(Key("a", "x")) is not None


def test_an_object_listed_again_in_the_version_held_is_not_held_twice() -> None:
    store: Store[Thing] = Store()
    held = thing("x", uid="1", version=1)
    store.put(held)
    assert store.known(thing("x", uid="1", version=1)) is held
    changed, successor = thing("x", uid="1", version=2), thing("x", uid="2", version=1)
    assert store.known(changed) is changed
    assert store.known(successor) is successor


def test_what_leaves_a_selection_and_comes_back_is_known_again() -> None:
    """A watch with a selector says DELETED of what has lost its label, and ADDED when it has it again."""
    store: Store[Thing] = Store()
    store.put(thing("x", uid="1", version=1))
    store.remove(thing("x", uid="1", version=4))
    for repeated in (1, 3, 4):
        store.put(thing("x", uid="1", version=repeated))
        assert store.get(Key("a", "x")) is None
    store.remember(thing("x", uid="1", version=5))
    assert store.get(Key("a", "x")) is None, "no watch would tell of its end"
    store.put(thing("x", uid="1", version=6))
    store.remember(thing("x", uid="1", version=7))
    held = store.get(Key("a", "x"))
    assert held is not None
    assert held.metadata.resource_version == "7"


def test_a_late_answer_to_a_write_does_not_bring_back_what_a_list_has_missed() -> None:
    store: Store[Thing] = Store()
    store.put(thing("x", uid="1", version=3))
    store.replace([], unreadable={}, version="9", new_history=False)
    store.put(thing("x", uid="1", version=5))
    assert store.get(Key("a", "x")) is None


def test_what_we_made_and_others_deleted_stays_gone_however_much_else_was_deleted_since() -> None:
    """The create is answered last: no watch would ever show the end of what it brought back."""
    store: Store[Thing] = Store()
    store.put(thing("mine", uid="mine", version=1))
    store.remove(thing("mine", uid="mine", version=2))
    for number in range(3, 10_003):
        store.put(thing("x", uid=str(number), version=2 * number))
        store.remove(thing("x", uid=str(number), version=2 * number + 1))
    store.add(thing("mine", uid="mine", version=1))
    store.remember(thing("mine", uid="mine", version=1))
    assert store.get(Key("a", "mine")) is None
    store.add(thing("later", uid="later", version=50_000))
    assert store.get(Key("a", "later")) is not None, "no watch has shown it yet"


@pytest.mark.parametrize(
    "listed", [thing("changed", uid="1", version=2), thing("deleted", uid="2", version=3)]
)
def test_a_list_of_another_history_is_refused_whatever_its_version(listed: Thing) -> None:
    """An older backup of etcd, restored with its versions raised: the list is newer, what is in it is not."""
    store: Store[Thing] = Store()
    store.put(thing("changed", uid="1", version=5))
    store.put(thing("deleted", uid="2", version=3))
    store.remove(thing("deleted", uid="2", version=6))
    with pytest.raises(HistoryReplaced, match="restore of etcd"):
        store.replace([listed], unreadable={}, version="1000", new_history=False)


def test_caches_keep_only_the_annotations_that_are_read() -> None:
    obj = msgspec.convert({"metadata": {"annotations": {"muster.dev/retry-at": "x", "big": "y"}}}, Thing)
    assert THING.compact(obj).metadata.annotations == {"muster.dev/retry-at": "x"}


WRITES = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["put", "put", "drop"])), min_size=1, max_size=30
)


@settings(max_examples=examples(300), deadline=None)
@given(writes=WRITES, jumps=st.lists(st.integers(1, 12), max_size=10), relists=st.sets(st.integers(0, 30)))
def test_repeated_and_replayed_tellings_change_nothing(
    writes: list[tuple[str, str]], jumps: list[int], relists: set[int]
) -> None:
    """Deliver a true history with jumps back, each of which replays it from there, and relists in between."""
    history: list[tuple[str, Thing]] = []
    truths: list[dict[str, Thing]] = []
    alive: dict[str, Thing] = {}
    for version, (name, write) in enumerate(writes, start=1):
        held = alive.get(name)
        uid = held.metadata.uid if held else f"uid-{version}"
        if write == "put":
            alive[name] = thing(name, uid=uid, version=version)
            history.append(("put", alive[name]))
        elif held:
            del alive[name]
            history.append(("remove", thing(name, uid=uid, version=version)))
        truths.append(dict(alive))
    store: Store[Thing] = Store()
    story = Story()
    store.listen(story.listen)
    position, pending = 0, list(jumps)
    while position < len(history):
        kind, obj = history[position]
        (store.put if kind == "put" else store.remove)(obj)
        if position in relists:
            version = int(obj.metadata.resource_version)
            store.replace(
                list(truths[version - 1].values()), unreadable={}, version=str(version), new_history=False
            )
            relists.discard(position)
        position += 1
        if pending and position % 3 == 0:
            position = max(0, position - pending.pop())
    assert {obj.metadata.name: obj.metadata.resource_version for obj in store} == {
        name: obj.metadata.resource_version for name, obj in alive.items()
    }
