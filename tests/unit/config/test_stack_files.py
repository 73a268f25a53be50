"""A stack file is read into a stack, and every mistake is reported at once, at its path, with its fix."""

import json
import random
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.config import ConfigError, load, parse
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.clusters import ExistingCluster
from muster.model.pools import Capacity
from muster.model.priorities import Priority
from muster.model.stack import ArtifactSource, GangMode, Stack
from muster.model.violations import Violation
from muster.render import gang, kueue
from tests.unit.model.model_stacks import nominal_quotas, specs

ROOT = Path(__file__).parents[3]
LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"

GKE = """\
config:
  gcp:project: other-programs-keys-are-theirs
  muster:cluster: {provider: gke, name: ml, region: us-central1, project: p, privateEndpoint: true}
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 20}
    l4: {accelerator: nvidia-l4, machine: g2-standard-4, capacity: queued, maxNodes: 10}
  muster:priorities: {prod: 1000, dev: 100}
  muster:departments:
    research:
      teams:
        team-a: {quota: {l4: 6}, borrow: {l4: 4}, weight: 2, priorities: [prod, dev]}
        team-b: {quota: {l4: 4}}
"""


def stack_of(text: str) -> Stack:
    stack, found = examine(parse_text(text, source="test.yaml"))
    assert [str(violation) for violation in found] == []
    assert stack is not None
    return stack


def mistakes(text: str) -> dict[str, str]:
    """path -> message and fix."""
    _, found = examine(parse_text(text, source="test.yaml"))
    return {violation.path: f"{violation.message} {violation.fix}" for violation in found}


def test_stack_local_is_the_local_plane() -> None:
    stack = load(LOCAL)
    assert stack.cluster == ExistingCluster(name="local", context="muster")
    assert [(pool.name, pool.max_nodes, pool.capacity) for pool in stack.pools] == [
        ("cpu", 1, Capacity.ON_DEMAND),
        ("l4", 2, Capacity.QUEUED),
        ("h100", 2, Capacity.QUEUED),
    ]
    assert stack.priorities == (Priority(1000, "prod"), Priority(100, "dev"))
    assert [department.name for department in stack.departments] == ["product", "research"]
    assert [team.name for _, team in stack.teams()] == ["team-c", "team-a", "team-b"]
    assert stack.artifacts is ArtifactSource.LOCAL
    assert stack.gang_admission.mode is GangMode.MUSTER


def test_two_gangs_over_both_pools_fit_team_as_quota_and_borrowing() -> None:
    """The stories need both gangs to hold quota at once and to compete for nodes alone."""
    stack = load(LOCAL)
    queue = specs(stack, "ClusterQueue")["team-a"]
    flavors = {flavor["name"]: flavor["resources"] for flavor in queue["resourceGroups"][0]["flavors"]}
    for pool in ("l4", "h100"):
        gpu = next(resource for resource in flavors[pool] if resource["name"] == "nvidia.com/gpu")
        assert int(gpu["nominalQuota"]) + int(gpu["borrowingLimit"]) == 2


def test_the_engines_values_mean_what_the_file_means() -> None:
    """The engine hands objects over as JSON text with sorted keys."""
    config = yaml.safe_load(LOCAL.read_text(encoding="utf-8"))["config"]
    engine = {
        key: json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
        for key, value in config.items()
    }
    bare = {key.removeprefix("muster:"): value for key, value in config.items()}
    assert parse(engine, source=LOCAL) == load(LOCAL)
    assert parse(bare, source="nowhere.yaml") == load(LOCAL)


def _shuffled(value: object, shuffler: random.Random) -> object:
    if not isinstance(value, dict):
        return value
    items = [(key, _shuffled(item, shuffler)) for key, item in value.items()]
    shuffler.shuffle(items)
    return dict(items)


@cache
def _straight() -> tuple[Stack, str]:
    """The stack in the order of the file, and its objects."""
    straight = stack_of(GKE)
    return straight, json.dumps(kueue.by_department(straight))


@given(st.randoms(use_true_random=False))
def test_the_order_of_the_file_changes_no_manifest(shuffler: random.Random) -> None:
    config = yaml.safe_load(GKE)["config"]
    shuffled = parse({key: _shuffled(value, shuffler) for key, value in config.items()}, source="x")
    straight, rendered = _straight()
    assert shuffled == straight
    assert json.dumps(kueue.by_department(shuffled)) == rendered


def test_marks_come_from_the_file_when_values_come_from_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(GKE.replace("weight: 2", "wieght: 2"), encoding="utf-8")
    values = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    with pytest.raises(ConfigError) as caught:
        parse(values, source=path)
    (violation,) = caught.value.violations
    assert caught.value.line(violation) == 11
    assert f"{path}:11: muster:departments.research.teams.team-a.wieght" in str(caught.value)


def test_all_mistakes_are_reported_at_once() -> None:
    text = (
        GKE.replace("provider: gke", "provider: gek")
        .replace("maxNodes: 20", "maxNodes: many")
        .replace("capacity: queued", "capacity: queud")
        .replace("weight: 2", "wieght: 2")
        .replace("team-b:", "Team_B:")
        .replace("[prod, dev]", "[prd]")
    )
    found = mistakes(text)
    teams = "muster:departments.research.teams"
    assert "did you mean 'gke'?" in found["muster:cluster.provider"]
    assert "whole number" in found["muster:pools.cpu.maxNodes"]
    assert "did you mean 'queued'?" in found["muster:pools.l4.capacity"]
    assert "did you mean 'weight'?" in found[f"{teams}.team-a.wieght"]
    assert "did you mean 'prod'?" in found[f"{teams}.team-a.priorities[0]"]
    assert f"{teams}.Team_B" in found
    assert len(found) == 6


def test_a_missing_section_is_reported_by_name() -> None:
    assert set(mistakes("config: {muster:scheduler: kueue}")) >= {
        "muster:cluster",
        "muster:pools",
        "muster:departments",
    }


@pytest.mark.parametrize(
    ("gang", "mode"), [("builtin", GangMode.BUILTIN), ("off", GangMode.OFF), ("{mode: off}", GangMode.OFF)]
)
def test_gang_admission_may_be_the_mode_alone_and_off_is_a_string(gang: str, mode: GangMode) -> None:
    assert stack_of(f"{GKE}  muster:gangAdmission: {gang}\n").gang_admission.mode is mode


def test_gang_admission_settings_reach_the_policy() -> None:
    spec = gang.policy(
        stack_of(f"{GKE}  muster:gangAdmission: {{provisionTimeout: 45m, retry: {{base: 2m}}}}\n")
    )["spec"]
    assert spec["provisionTimeout"] == "45m"
    assert spec["retry"]["base"] == "2m"


def test_a_cpu_quota_may_name_memory_too() -> None:
    stack = stack_of(GKE.replace("{l4: 6}", "{l4: {gpus: 6, cpu: 12}, cpu: {cpu: 1500m, memory: 4Gi}}"))
    quotas = nominal_quotas(stack, "team-a")
    assert [*quotas["cpu"].values()] == ["1500m", "4Gi", "0"]
    assert quotas["l4"]["cpu"] == "12"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config: {a: [", "is not YAML in line 1"),
        ("config: [1]", "no mapping `config:`"),
        ("- 1", "no mapping `config:`"),
        ("config: {muster:pools: &a [*a]}", "is not YAML"),
        ("config: {muster:pools: !!python/object:os.system {}}", "is not YAML"),
        ("a: \t- b\n\x07", "is not YAML"),
    ],
)
def test_a_file_that_is_no_stack_file_is_refused_with_the_reason(text: str, expected: str) -> None:
    (message,) = mistakes(text).values()
    assert expected in message


def test_aliases_cannot_make_a_short_file_endless() -> None:
    bomb = "config:\n  muster:a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    for name, before in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"  muster:{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    (message,) = mistakes(bomb).values()
    assert "more than" in message


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        "cluster",
        "pools",
        "departments",
        "priorities",
        "gangAdmission",
        "podsReady",
        "observability",
        "scheduler",
        "artifacts",
        "charts",
        "image",
        "images",
    ]
)


def refusals(values: dict[str, object]) -> list[Violation] | None:
    """The mistakes of values that are no stack, None for a stack."""
    try:
        parse(values, source="x")
    except ConfigError as error:
        return error.violations
    return None


@given(st.dictionaries(_KEYS, _VALUES, max_size=8))
def test_any_value_is_a_stack_or_a_violation(values: dict[str, object]) -> None:
    assert refusals(values) != []


@given(st.sampled_from(["pools", "priorities", "departments", "cluster"]), st.text(max_size=6), _VALUES)
def test_any_entry_in_a_sound_stack_is_read_or_refused(key: str, name: str, value: object) -> None:
    config = yaml.safe_load(GKE)["config"]
    config[f"muster:{key}"] = {**config[f"muster:{key}"], name: value}
    assert all(violation.path.startswith("muster:") for violation in refusals(config) or ())
