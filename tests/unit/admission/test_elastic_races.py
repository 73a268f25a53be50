"""An elastic cluster that grows and shrinks at any moment: every pod that may run has a node.

Kueue finishes, admits and starts slices when the test says so, KubeRay makes pods when the test says so, and
the controller looks in between: a growth within seconds of the start is one order among all.
"""

import dataclasses
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.length import examples
from tests.unit.admission.elastic_world import STEPS, Elastic
from tests.unit.gangs.paper import flavor_policy

CALM = timedelta(minutes=1)
Step = tuple[str, int]


def steps() -> st.SearchStrategy[list[Step]]:
    resize = st.tuples(st.just("resize"), st.integers(0, 4))
    trouble = st.tuples(st.sampled_from(["fail", "crash", "limit"]), st.integers(1, 4))
    usual = st.tuples(st.sampled_from(STEPS), st.just(0))
    return st.lists(st.one_of(usual, usual, usual, resize, trouble), max_size=60)


def take(world: Elastic, step: Step) -> None:
    name, number = step
    waiting = [key for key, each in world.requests.items() if not each.status.holds("Provisioned")]
    match name:
        case "resize":
            world.scale(number)
        case "fail" if waiting and world.free_pods():  # A gang that does not run yet leaves the quota.
            world.answer(waiting[0], "Failed", "OUT_OF_RESOURCES")
        case "limit" if world.free_pods():
            limit(world, number)
        case "crash":
            world.crash_after = world.writes + 1
        case _ if name in STEPS:
            getattr(world, name)()
    world.check()


def limit(world: Elastic, most: int) -> None:
    flavors = (flavor_policy("l4", 10, max_nodes=most),)
    world.policy = dataclasses.replace(world.policy, flavors=flavors)


def in_calm(world: Elastic) -> None:
    for name in STEPS:
        getattr(world, name)()
        world.settle()
        world.check()
    world.now += CALM


AT_ONCE = ["job", "kueue", "settle", "cloud", "cloud", "settle", "admit"]
"""The first slice has just been admitted, and nothing has been started."""
RUNNING = [(name, 0) for name in (*AT_ONCE, "start", "settle", "kuberay", "ungate", "jobs", "settle")]


@settings(deadline=None, max_examples=examples(30))
@example([(name, 0) for name in AT_ONCE] + [("resize", 3), ("job", 0), ("kueue", 0), ("finish", 0)])
@example(
    [(name, 0) for name in (*AT_ONCE, "start")]
    + [("resize", 3), ("kuberay", 0), ("job", 0), ("kueue", 0), ("finish", 0), ("settle", 0)]
)
@example(
    [(name, 0) for name in (*AT_ONCE, "start")]
    + [("resize", 3), ("kuberay", 0), ("ungate", 0), ("job", 0), ("kueue", 0), ("finish", 0)]
)
@example([("job", 0), ("kueue", 0), ("resize", 2), ("job", 0), ("kueue", 0), ("settle", 0), ("admit", 0)])
@example([*RUNNING, ("limit", 2), ("resize", 4), ("job", 0), ("kueue", 0), ("finish", 0), ("settle", 0)])
@given(steps())
def test_a_cluster_that_grows_at_any_moment_gets_all_it_wants_and_no_pod_without_a_node(
    taken: list[Step],
) -> None:
    world = Elastic(stock={"l4": 20})
    for step in taken:
        take(world, step)
    limit(world, 8)
    world.scale(max(world.wish, 1))
    for _ in range(400):
        in_calm(world)
        if len(world.pods) == world.wish and world.free_pods() == world.wish:
            break
    assert (len(world.pods), world.free_pods()) == (world.wish, world.wish)
    assert all(birth.claim is not None for birth in world.births.values())
