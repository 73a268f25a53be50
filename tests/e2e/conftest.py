"""One local cluster with one `pulumi up` for the whole session; each test begins on an empty cloud."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e import local_cluster
from tests.e2e.explain import explain
from tests.e2e.light import sleeper
from tests.e2e.local_cluster import TEAMS, Muster

_MUSTER = pytest.StashKey[Muster]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last(place=1): after all the others, because it ends what they share")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    last = item.get_closest_marker("last")
    return 0 if last is None else int(last.args[0]) if last.args else 1


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Iterator[Muster]:
    muster = local_cluster.bring_up()
    request.config.stash[_MUSTER] = muster
    for team in TEAMS:
        muster.cluster.apply(sleeper(team))
    yield muster
    local_cluster.take_down(muster)


@pytest.fixture
def muster(shared: Muster) -> Iterator[Muster]:
    """The local cluster, with nothing on it but the stack."""
    shared.sweep()
    yield shared
    shared.heal()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    muster = item.config.stash.get(_MUSTER, None)
    if report.failed and report.when in ("setup", "call") and muster is not None:
        failure = call.excinfo.exconly() if call.excinfo is not None else ""
        report.sections.append(("the local cluster when it failed", explain(muster, failure)))
    return report
