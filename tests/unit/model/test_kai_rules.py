"""Violations of a KAI stack, and of a switch between the schedulers."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.config.document import ConfigError, parse_text
from muster.config.project import load_document
from muster.config.stack import examine
from muster.model import definitions
from muster.model.kai import QueueSpec, ShardSettings, TopologySpec
from muster.model.stack import Scheduler
from muster.model.violations import Violation
from muster.model.work import Work
from muster.render import kai, queues
from muster.validation.kai import foreign_fields
from tests.unit.model.model_stacks import parsed

_STACK = """
config:
  muster:cluster: {{provider: existing, name: c, context: c}}
  muster:pools:
    cpu: {{machine: e2-standard-4, maxNodes: 5}}
    l4: {{machine: g2-standard-8, maxNodes: 10}}
{pools}
  muster:scheduler: {scheduler}
  muster:priorities: {priorities}
{top}
  muster:departments:
    research:
{department}
      teams:
        team-a: {team}
        team-b: {{quota: {{l4: 1}}}}
"""


_SAID = {"scheduler": "kai", "team": "{}", "department": "", "top": "", "pools": ""}


def _text(*, priorities: str = "{train: 50}", **said: str) -> str:
    """The file of a stack with two teams, of which one says nothing of KAI."""
    return _STACK.format(**{**_SAID, **said}, priorities=priorities)


def _found(**said: str) -> dict[str, Violation]:
    """path -> violation."""
    _, found = examine(parse_text(_text(**said), source="test"))
    return {violation.path: violation for violation in found}


def test_work_of_every_kind_is_served() -> None:
    served = f"  muster:work: [{', '.join(Work)}]"
    assert "muster:work" not in _found(top=served)
    found = _found(top=served + "\n  muster:gangAdmission: {mode: off}")["muster:work"]
    assert "has lws, statefulset, deployment, whose pods KAI queues behind Muster's gate" in found.message


_TEAM = "muster:departments.research.teams.team-a"


@pytest.mark.parametrize(
    ("said", "path", "word"),
    [
        ("{lend: none}", "lend", "idle"),
        ("{quota: {l4: 4}, lend: {l4: 2}}", "lend.l4", "idle"),
        ("{queueing: strict}", "queueing", "order"),
        ("{localQueue: user-queue}", "localQueue", "LocalQueue"),
        ("{preemption: {within: never}}", "preemption.within", "preempt"),
        ("{preemption: {within: lower-or-newer-equal-priority}}", "preemption.within", "newer"),
        ("{preemption: {reclaim: never}}", "preemption.reclaim", "reclaims"),
        ("{preemption: {reclaim: lower-priority}}", "preemption.reclaim", "reclaims"),
    ],
)
def test_fields_that_kai_does_not_support_are_reported_at_their_path(said: str, path: str, word: str) -> None:
    violation = _found(team=said)[f"{_TEAM}.{path}"]
    assert word in violation.message
    assert violation.fix
    assert f"{_TEAM}.{path}" not in _found(team=said, scheduler="kueue")


def test_the_short_form_is_good_for_both_schedulers() -> None:
    short = "{quota: {l4: 4}, borrow: {l4: 1}, weight: 2, priorities: [train]}"
    assert _found(team=short) == {} == _found(team=short, scheduler="kueue")
    # All of a quota is what KAI lends anyway.
    assert _found(team="{quota: {l4: 4}, lend: {l4: 4}}") == {}


def test_under_kueue_each_field_for_kai_only_is_reported() -> None:
    found = _found(
        scheduler="kueue",
        team="{kai: {priority: 200, gpu: {quota: 1}, pools: {l4: {cpu: {limit: 1}}}}}",
        department="      kai: {displayName: Research}",
        top="""\
  muster:kai: {gpuSharing: true, shard: {placementStrategy: {gpu: spread}}}
  muster:gangAdmission: {kai: {overQuota: allow}}
""",
    )
    assert found.keys() == {
        f"{_TEAM}.kai.priority",
        f"{_TEAM}.kai.gpu.quota",
        f"{_TEAM}.kai.pools.l4",
        "muster:departments.research.kai.displayName",
        "muster:kai.gpuSharing",
        "muster:gangAdmission.kai",
        "muster:kai.shard.placementStrategy.gpu",
    }
    assert all("muster:scheduler: kai" in violation.fix for violation in found.values())


def test_every_field_for_kai_is_reported_under_its_key() -> None:
    file = Path(__file__).parents[2] / "kai" / "every-field.yaml"
    document = load_document(file)
    stack = load(file)
    paths = {violation.path for violation in foreign_fields(replace(stack, scheduler=Scheduler.KUEUE))}
    assert paths <= document.lines.keys()
    assert {
        "muster:kai.shard.goMemLimit",
        "muster:kai.shard.scenarioSearchBudgets.minJobSearchDuration",
    } <= paths


def test_under_kai_kueues_check_and_readiness_are_reported() -> None:
    assert "muster:gangAdmission" in _found(top="  muster:gangAdmission: builtin")
    assert "muster:podsReady" in _found(top="  muster:podsReady: {timeout: 10m}")


def test_priorities_that_kai_never_preempts_are_a_warning() -> None:
    found = _found(priorities="{prod: 1000, dev: 100}", team="{quota: {l4: 2}, borrow: {l4: 2}}")
    assert {path: violation.level for path, violation in found.items()} == {
        "muster:priorities.dev": "warning",
        f"{_TEAM}.borrow.l4": "warning",
    }
    assert "prod" in found["muster:priorities.dev"].message
    own = "{train: 50, build-preemptible: 75, build: 100, inference: 125}"
    assert _found(priorities=own, team="{quota: {l4: 2}, borrow: {l4: 2}}") == {}


def test_two_gpu_pools_in_one_shard_are_refused_with_the_reason() -> None:
    pools = "    a10g: {machine: g5.2xlarge, maxNodes: 2}"
    found = _found(pools=pools, top="  muster:kai: {sharding: one}")
    assert "one GPU figure" in found["muster:kai.sharding"].message
    assert "muster:kai.sharding" not in _found(pools=pools)


def test_one_queue_does_not_distinguish_two_cpu_pools() -> None:
    pools = "    large: {machine: e2-standard-8, maxNodes: 2}"
    assert f"{_TEAM}.quota.large" in _found(pools=pools, team="{quota: {large: 1}}")
    per_pool = "  muster:kai: {sharding: per-pool}"
    assert _found(pools=pools, team="{quota: {large: 1}}", top=per_pool) == {}


@pytest.mark.parametrize(
    ("team", "department", "path"),
    [
        ("{quota: {l4: 4}, kai: {gpu: {limit: 2}}}", "", f"{_TEAM}.kai.gpu.limit"),
        ("{kai: {gpu: {quota: unlimited, limit: 4}}}", "", f"{_TEAM}.kai.gpu.limit"),
        ("{quota: {l4: 4}}", "      kai: {gpu: {quota: 2}}", "muster:departments.research.kai.gpu.quota"),
        ("{kai: {gpu: {quota: 11}}}", "", "muster:departments"),
        ("{kai: {pools: {l4: {gpu: {quota: 1}}}}}", "", f"{_TEAM}.kai.pools.l4"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(team: str, department: str, path: str) -> None:
    assert _found(team=team, department=department)[path].level == "error"


def test_with_a_shard_for_each_pool_a_figure_names_its_pool() -> None:
    top = "  muster:kai: {sharding: per-pool, pools: {l5: {}}}"
    found = _found(top=top, team="{kai: {gpu: {quota: 1}, pools: {l4: {gpu: {quota: 2}}}}}")
    assert found.keys() == {f"{_TEAM}.kai.gpu", "muster:kai.pools.l5"}


def test_two_queues_of_one_name_are_refused() -> None:
    pools = "    b-c: {machine: g2-standard-8, maxNodes: 1}\n    c: {machine: g2-standard-8, maxNodes: 1}"
    text = _text(pools=pools).replace("team-a: {}", "a: {quota: {b-c: 1}}\n        a-b: {quota: {c: 1}}")
    _, found = examine(parse_text(text, source="test"))
    assert any("'a-b-c'" in violation.message for violation in found)


def test_priorities_and_topologies_that_the_api_server_refuses_are_reported() -> None:
    found = _found(priorities="{system-mine: 5, huge: 2000000000, muster-gang-admission: 7}")
    refused = ("system-mine", "huge", "muster-gang-admission")
    assert found.keys() >= {f"muster:priorities.{name}" for name in refused}
    levels = "[{nodeLabel: kubernetes.io/hostname}, {nodeLabel: x/rack, alias: x/rack}, {nodeLabel: -}]"
    found = _found(top=f"  muster:kai: {{topologies: {{t: {{levels: {levels}}}}}}}")
    assert {path.rpartition("levels")[2] for path in found} == {"[0]", "[1]", "[2].nodeLabel"}


def test_minus_one_is_refused_with_the_word_to_write() -> None:
    found = _found(team="{kai: {gpu: {limit: -1}}}")
    assert "unlimited" in found[f"{_TEAM}.kai.gpu.limit"].fix


def test_parts_of_gpus_come_from_kai_or_from_the_device_plugin() -> None:
    top, pools = (
        "  muster:kai: {gpuSharing: true}",
        "    a10g: {machine: g5.2xlarge, maxNodes: 2, sharing: mps, shares: 2}",
    )
    found = _found(top=top, pools=pools)
    assert found["muster:pools.a10g.sharing"].level == "error"
    assert "isolate" in found["muster:kai.gpuSharing"].message
    assert "muster:pools.a10g.sharing" not in {
        path for path, violation in _found(pools=pools).items() if violation.level == "error"
    }


def test_a_password_has_no_place_in_a_stack_file() -> None:
    shard = "{usageDBConfig: {clientType: prometheus, connectionString: 'http://u:p@h'}}"
    found = _found(top=f"  muster:kai: {{shard: {shard}}}")
    assert "muster:kai.shard.usageDBConfig.connectionString" in found


_MINE = "write the settings of one pool in `muster:kai.pools`"


@pytest.mark.parametrize(
    ("top", "team", "path", "message", "fix"),
    [
        ("{shard: {placementStrategi: {}}}", "{}", ".placementStrategi", "not a key", "'placementStrategy'"),
        ("{shard: {placementStrategy: {gpu: spreed}}}", "{}", "Strategy.gpu", "not allowed", "mean 'spread'"),
        ("{shard: {plugins: {a: {argments: {}}}}}", "{}", "plugins.a.argments", "not a key", "'arguments'"),
        ("{shard: {plugins: {a: {enabled: 'yes'}}}}", "{}", "a.enabled", "true or false", "without quotes"),
        ("{shard: {minRuntime: {preemptMinRuntime: 5}}}", "{}", "MinRuntime", "a duration", "45s, 30m"),
        ("{shard: {kValue: .nan}}", "{}", "shard.kValue", "is nan", "0 or more"),
        ("{shard: {goMemLimitRatio: 0}}", "{}", "shard.goMemLimitRatio", "is 0", "more than 0"),
        ("{shard: {goMemLimit: lots}}", "{}", "shard.goMemLimit", "an amount", "8Gi"),
        ("{shard: {queueDepthPerAction: {reclaim: 0}}}", "{}", "Action.reclaim", "is 0", "1 or more"),
        ("{shard: {args: [a]}}", "{}", "shard.args", "a mapping", "key: value"),
        ("{shard: {usageDBConfig: {}}}", "{}", "usageDBConfig.clientType", "is missing", "prometheus"),
        ("{shard: {partitionLabelValue: l4}}", "{}", "shard.partitionLabelValue", "Muster writes", _MINE),
        (
            "{topologies: {t: {levels: [{nodeLabel: a}, {alias: b}]}}}",
            "{}",
            "[1].nodeLabel",
            "missing",
            "rack",
        ),
        ("{topologies: {t: {levels: []}}}", "{}", "t.levels", "is empty", "1 or more"),
        ("{}", "{prority: 5}", "kai.prority", "not a key of Queue", "'priority'"),
        ("{}", "{gpus: {quota: 1}}", "kai.gpus", "not a key of Queue", "'gpu'"),
        ("{}", "{priority: high}", "kai.priority", "a whole number", "without quotes"),
        ("{}", "{priority: 99999999999}", "kai.priority", "is 99999999999", "2147483647 or less"),
        ("{}", "{preemptMinRuntime: 1d}", "kai.preemptMinRuntime", "a duration", "1h30m"),
        ("{}", "{parentQueue: top}", "kai.parentQueue", "tree of departments", "move the team"),
        ("{}", "{resources: {gpu: {quota: 1}}}", "kai.resources", "from quota", "`gpu: {limit: 8}`"),
    ],
)
def test_a_mistake_in_kais_words_is_named_with_its_fix(
    top: str, team: str, path: str, message: str, fix: str
) -> None:
    found = _found(top=f"  muster:kai: {top}", team=f"{{quota: {{l4: 4}}, kai: {team}}}")
    (violation,) = [each for each in found.values() if each.path.endswith(path)]
    assert message in violation.message
    assert fix in violation.fix


def test_a_field_that_a_new_kai_has_is_passed_on_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    data: dict[str, Any] = copy.deepcopy(dict(definitions.load()))
    own = {"type": "object", "properties": {"rules": {"type": "array", "items": {"type": "object"}}}}
    for kind in (ShardSettings, QueueSpec, TopologySpec):
        spec = definitions.resolve(data["specs"][kind.KIND])
        added = {**spec, "properties": {**spec["properties"], "ofTomorrow": own}}
        data["specs"][kind.KIND] = added
    monkeypatch.setattr(definitions, "load", lambda: data)
    monkeypatch.setattr(definitions, "spec_schema", definitions.spec_schema.__wrapped__)
    written = {"rules": [{"when": [1, 2.5, True], "then": {"b": "x"}}, {}]}
    said = "ofTomorrow: {rules: [{when: [1, 2.5, true], then: {b: x}}, {}]}"
    top = f"  muster:kai: {{shard: {{{said}}}, topologies: {{t: {{levels: [{{nodeLabel: a}}], {said}}}}}}}"
    stack = parsed(_text(team=f"{{kai: {{{said}}}}}", top=top))
    queue = next(each for each in kai.queues(stack) if each["metadata"]["name"] == "team-a")
    objects = [*kai.shards(stack), *kai.topologies(stack), queue]
    assert [each["spec"]["ofTomorrow"] for each in objects] == [written] * 3


def test_a_stack_without_kais_words_reads_no_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(definitions, "load")
    assert _found(team="{quota: {l4: 4}, kai: {gpu: {limit: unlimited}}}") == {}


def test_what_is_asked_beyond_kais_definitions_is_of_fields_that_exist() -> None:
    for kind in (ShardSettings, QueueSpec, TopologySpec):
        for path in kind.ADDED:
            node = kind.schema()
            for part in path.split("."):
                node = node.get("additionalProperties", {}) if part == "*" else node["properties"][part]
            assert node["type"] in ("string", "number", "integer", "object", "duration")


def test_mistakes_have_their_line(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(
        "config:\n"
        "  muster:cluster: {provider: existing, name: c, context: c}\n"
        "  muster:pools: {cpu: {machine: e2-standard-4, maxNodes: 5}}\n"
        "  muster:scheduler: kai\n"
        "  muster:departments:\n"
        "    r:\n"
        "      teams:\n"
        "        a:\n"
        "          kai:\n"
        "            prority: 5\n"
    )
    with pytest.raises(ConfigError, match=r"Pulumi.x.yaml:10: muster:departments.r.teams.a.kai.prority"):
        load(path)


@pytest.mark.parametrize(
    ("team", "path", "word"),
    [
        ("{kai: {queue: none}}", "kai.queue", "a team's work needs a Queue"),
        ("{kai: {queue: Team_A}}", "kai.queue", "cannot be the name of a Queue"),
        ("{kai: {queue: team.A}}", "kai.queue", "cannot be the name of a Queue"),
        (f"{{kai: {{queue: {'a' * 64}}}}}", "kai.queue", "cannot be the name of a Queue"),
        ("{kai: {queue: research}}", "", "is that of muster:departments.research as well"),
    ],
)
def test_a_name_of_a_queue_is_one_that_work_can_use(team: str, path: str, word: str) -> None:
    found = _found(team=team)
    assert word in found[f"{_TEAM}.{path}".rstrip(".")].message


def test_a_name_with_dots_and_a_department_without_a_queue_are_allowed() -> None:
    found = _found(team="{kai: {queue: team.a}}", department="      kai: {queue: none}")
    assert [each for each in found.values() if each.level == "error"] == []


def test_existing_namespaces_get_kais_queues_and_nothing_else() -> None:
    top = "  muster:gangAdmission: 'off'\n  muster:tenancy: {mode: 'off', namespaces: existing}"
    made = queues.by_department(parsed(_text(top=top)))["research"]
    assert {team: [each["kind"] for each in objects] for team, objects in made.items()} == {
        "": ["Queue"],
        "team-a": ["Queue"],
        "team-b": ["Queue"],
    }
