"""An elastic cluster in a pool without ProvisioningRequests grows and shrinks at any moment: for every pod
that may run there is a node that nobody else can take.
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.controller.gangs.placeholder_sets import held_for
from tests.length import examples
from tests.unit.admission.elastic_placed_world import ElasticPlaced
from tests.unit.admission.elastic_world import STEPS
from tests.unit.admission.test_elastic_races import AT_ONCE, CALM, RUNNING, Step

_OURS = (*STEPS, "one", "sweep", "rival", "late")


def _steps() -> st.SearchStrategy[list[Step]]:
    resize = st.tuples(st.just("resize"), st.integers(0, 4))
    trouble = st.tuples(st.sampled_from(["stock", "crash"]), st.integers(0, 6))
    usual = st.tuples(st.sampled_from(_OURS), st.just(0))
    return st.lists(st.one_of(usual, usual, usual, resize, trouble), max_size=60)


def _take(world: ElasticPlaced, step: Step) -> None:
    name, number = step
    match name:
        case "resize":
            world.scale(number)
        case "stock":
            world.stock["l4"] = number
        case "crash":
            world.crash_after = world.writes + number
        case _:
            getattr(world, name)()
    world.check()


def _in_calm(world: ElasticPlaced) -> None:
    for name in (*STEPS, "sweep"):
        getattr(world, name)()
        world.settle()
        world.check()
    world.now += CALM


@settings(deadline=None, max_examples=examples(30))
@example([(name, 0) for name in AT_ONCE] + [("resize", 3), ("job", 0), ("kueue", 0), ("finish", 0)])
@example(
    [(name, 0) for name in (*AT_ONCE, "start")]
    + [("resize", 3), ("kuberay", 0), ("job", 0), ("kueue", 0), ("finish", 0), ("settle", 0)]
)
@example(
    [(name, 0) for name in (*AT_ONCE, "start")]
    + [("resize", 3), ("kuberay", 0), ("ungate", 0), ("job", 0), ("kueue", 0), ("finish", 0)]
    + [("settle", 0), ("sweep", 0), ("rival", 0), ("cloud", 0), ("settle", 0)]
)
@example([*RUNNING, ("sweep", 0), ("stock", 2), ("resize", 4), ("job", 0), ("kueue", 0), ("finish", 0)])
@example(
    [
        ("resize", 3),
        *((name, 0) for name in (*AT_ONCE, "start", "settle", "kuberay", "ungate", "one", "sweep")),
    ]
)
@given(_steps())
def test_every_pod_of_a_growth_has_a_node_that_is_kept_for_it(taken: list[Step]) -> None:
    world = ElasticPlaced(stock={"l4": 20})
    for step in taken:
        _take(world, step)
    world.stock["l4"] = 20
    for _ in range(12):
        _in_calm(world)
    assert world.free_pods() == world.wish
    assert len(world.pods) == world.wish
    assert not any(map(held_for, world.nodes.values())), "a node stays held"
