"""Names in a Google project: ones that Google takes, and none that two clusters share."""

import re

from hypothesis import given
from hypothesis import strategies as st

from muster.model.clusters import GkeCluster, gke

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z", fullmatch=True)
REGIONS = st.sampled_from(["us-central1", "us-east1", "northamerica-northeast1"])


def cluster(name: str, region: str = "us-central1") -> GkeCluster:
    return GkeCluster(name=name, project="acme", region=region)


@given(name=NAMES, region=REGIONS, team=NAMES)
def test_every_name_is_one_that_google_takes(name: str, region: str, team: str) -> None:
    accounts = (
        gke.node_account(cluster(name, region)),
        gke.team_account(cluster(name, region), team),
    )
    for account in accounts:
        assert re.fullmatch(r"[a-z][-a-z0-9]{4,28}[a-z0-9]", account)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", gke.network(cluster(name, region)))


@given(name=NAMES, team=NAMES)
def test_clusters_of_one_name_in_two_regions_share_none(name: str, team: str) -> None:
    here, there = cluster(name), cluster(name, "us-east1")
    assert gke.network(here) != gke.network(there)
    assert gke.node_account(here) != gke.node_account(there)
    assert gke.team_account(here, team) != gke.team_account(there, team)


@given(name=NAMES, teams=st.lists(NAMES, min_size=2, max_size=9, unique=True))
def test_no_two_teams_of_a_cluster_share_an_account(name: str, teams: list[str]) -> None:
    assert len({gke.team_account(cluster(name), team) for team in teams}) == len(teams)


@given(parts=st.lists(NAMES, min_size=3, max_size=3))
def test_dashes_do_not_make_two_teams_one(parts: list[str]) -> None:
    """Names of clusters and teams are put together with dashes, and have dashes themselves."""
    first, middle, last = parts
    mine = gke.team_account(cluster(f"{first}-{middle}"), last)
    assert mine != gke.team_account(cluster(first), f"{middle}-{last}")
