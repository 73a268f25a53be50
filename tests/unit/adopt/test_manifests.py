"""`muster diff --manifests`: Kueue's objects of any tool get the report that stacks get."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings

from muster.adopt.manifest_objects import Text
from muster.adopt.manifests import ManifestSides, load_manifests
from muster.cli import main
from muster.cli.manifests import load_stacks
from muster.config import load
from muster.model.quantities import Gpus
from muster.model.queues import Amount, Department, Team
from muster.model.stack import Scheduler, Stack
from muster.preview import markdown
from muster.preview.compare.diff import LoadedSide
from muster.preview.inputs import SharedInputs, compare_sides
from muster.preview.replay.both import queues_of
from muster.preview.report import to_report
from muster.render import queues
from tests.length import examples
from tests.unit.adopt.clusters import ROOT
from tests.unit.model.model_stacks import stacks
from tests.unit.preview import banner_world
from tests.unit.preview.preview_world import commit

_STACKS = [
    path
    for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
    if load(path).scheduler is Scheduler.KUEUE
]
_KUEUE = "kueue.x-k8s.io/v1beta2"
_SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {token: hunter2}
"""
# Changes of queues alone, in which no share of CPU that no quota names moves to another team.
_OF_QUEUES = ("drained-queue", "quota-between-teams", "stopped-queue", "team-moves")


def _write(folder: Path, objects: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return folder


def _diff(capsys: pytest.CaptureFixture[str], base: Path | str, head: Path, *more: str) -> str:
    assert main(["diff", "--manifests", str(base), str(head), *more]) == 0
    return capsys.readouterr().out


def _refused(capsys: pytest.CaptureFixture[str], base: Path | str, head: Path) -> str:
    assert main(["diff", "--manifests", str(base), str(head)]) == 2
    return capsys.readouterr().err


def _expected(base: Stack, head: Stack) -> str:
    """The report of the stacks, under the name of the folder."""
    diffs = compare_sides({"head": LoadedSide(True, base)}, {"head": LoadedSide(True, head)}, SharedInputs())
    return markdown.format_comment(to_report(diffs), is_drawn=False)


def _queue(name: str = "vision", **spec: Any) -> dict[str, Any]:
    quota = [{"name": "nvidia.com/gpu", "nominalQuota": 8}, {"name": "cpu", "nominalQuota": 64}]
    groups = [
        {"coveredResources": ["nvidia.com/gpu", "cpu"], "flavors": [{"name": "h100", "resources": quota}]}
    ]
    return {
        "apiVersion": _KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"cohortName": "lab", "resourceGroups": groups, **spec},
    }


def _flavor(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}


def _local_queue(queue: str) -> dict[str, Any]:
    metadata = {"name": "jobs", "namespace": "vision"}
    return {"apiVersion": _KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue}}


def _with_gpus(queue: dict[str, Any], gpus: int) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(queue))
    changed["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = gpus
    return changed


def _fewer(stack: Stack) -> Stack:
    """The stack with one GPU less for the first team that has several."""
    found = False

    def team(one: Team) -> Team:
        nonlocal found
        for pool, amount in one.allowance.quota.items():
            if not found and (amount.gpus or 0) > 1:
                found = True
                less = Amount(gpus=Gpus((amount.gpus or 0) - 1))
                quota = {**one.allowance.quota, pool: less}
                return replace(one, allowance=replace(one.allowance, quota=quota))
        return one

    def department(one: Department) -> Department:
        teams = tuple(team(each) for each in one.teams)
        return replace(one, teams=teams, departments=tuple(department(each) for each in one.departments))

    return replace(stack, departments=tuple(department(each) for each in stack.departments))


@pytest.mark.parametrize("path", _STACKS, ids=lambda path: path.stem)
def test_what_a_shipped_stack_renders_is_compared_as_the_stack(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = load(path)
    head = _fewer(base)
    assert main(["render", str(path), "--out", str(tmp_path / "base.yaml")]) == 0
    folder = _write(tmp_path / "head", queues.objects(head))
    assert _diff(capsys, tmp_path / "base.yaml", folder) == _expected(base, head)


@pytest.mark.parametrize("case", _OF_QUEUES)
def test_a_change_of_queues_has_the_report_of_the_stacks(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = banner_world.changed_stacks(case)
    folders = _write(tmp_path / "base", queues.objects(base)), _write(tmp_path / "head", queues.objects(head))
    assert _diff(capsys, *folders) == _expected(base, head)


def _without_notes(sides: Sequence[ManifestSides]) -> str:
    """The report, without the notes on objects, which stacks do not get."""
    base, head = (
        {each.name: replace(getattr(each, side), warnings=()) for each in sides} for side in ("base", "head")
    )
    named = {each.name: each for each in sides}
    diffs = [named[each.name].completed(each) for each in compare_sides(base, head, SharedInputs())]
    return markdown.format_comment(to_report(diffs), is_drawn=False)


@given(stacks())
@settings(max_examples=examples(200))
def test_what_any_stack_renders_is_compared_as_the_stack(base: Stack) -> None:
    head = _fewer(base)
    assume(head != base)
    lists = [{"kind": "List", "items": queues.objects(each)} for each in (base, head)]
    texts = [(Text("objects.json", json.dumps(each)),) for each in lists]
    assert _without_notes(load_manifests("head", *texts)) == _expected(base, head)


# The same change as other tools print it

_OTHERS = 300


def _kustomized(objects: list[dict[str, Any]]) -> str:
    """As `kustomize build`: keys and objects in the order of their names, with a label of the overlay."""
    others = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"config-{number}"},
            "data": {"a": "b"},
        }
        for number in range(_OTHERS)
    ]
    labelled = [
        {**each, "metadata": {**each["metadata"], "labels": {"app.kubernetes.io/part-of": "lab"}}}
        for each in (*objects, *others)
    ]
    listed = sorted(labelled, key=lambda each: (each["kind"], each["metadata"]["name"]))
    return yaml.safe_dump_all(listed, sort_keys=True, default_flow_style=False)


def _templated(objects: list[dict[str, Any]]) -> str:
    """As `helm template`: the source before each object as a comment, empty documents, Helm's labels."""
    labels = {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "queues-1.4.0"}
    written = [
        f"---\n# Source: queues/templates/{each['kind'].lower()}.yaml\n"
        + yaml.safe_dump(
            {**each, "metadata": {**each["metadata"], "labels": labels, "annotations": {"meta": "x"}}},
            sort_keys=False,
        )
        for each in objects
    ]
    hook = "---\n# Source: queues/templates/empty.yaml\n"
    return hook.join([*written, *[f"---\n{_SECRET}"] * _OTHERS])


def test_one_change_has_one_report_whichever_tool_printed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = banner_world.changed_stacks("quota-between-teams")
    expected = _expected(base, head)
    assert "lose" in expected
    for tool in (_kustomized, _templated):
        for name, stack in (("base", base), ("head", head)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "all.yaml").write_text(tool(queues.objects(stack)))
        assert _diff(capsys, tmp_path / "base", tmp_path / "head") == expected


def test_other_objects_folders_lists_and_json_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = _write(tmp_path / "base", [_queue()])
    plain = _diff(capsys, base, _write(tmp_path / "head", [_with_gpus(_queue(), 6)]))
    assert "**`vision` -2 H100**" in plain
    head = tmp_path / "other" / "head"
    (head / "queues").mkdir(parents=True)
    (head / "app.yaml").write_text("\n---\n".join([_SECRET] * 200))
    listed = {"apiVersion": "v1", "kind": "List", "items": [_with_gpus(_queue(), 6)]}
    (head / "queues" / "all.json").write_text(json.dumps(listed))
    assert _diff(capsys, base, head) == plain


def test_a_base_without_objects_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`vision` +8 H100" in _diff(capsys, "none", _write(tmp_path / "head", [_queue()]))


def test_a_gain_is_no_more_than_a_pool_has_of_which_nothing_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = _write(tmp_path / "base", [_queue()]), _write(tmp_path / "head", [_with_gpus(_queue(), 9)])
    assert main(["diff", "--manifests", str(base), str(head), "--json", "--fail-on", "look"]) == 0
    assert "with more guaranteed than there is" not in capsys.readouterr().out


def test_a_stack_adopted_without_nodes_has_its_losses_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no pools: its quotas stand in `resourceGroups` alone."""
    stacks = []
    for gpus in (8, 6):
        folder = _write(tmp_path / str(gpus), [_flavor("h100"), _with_gpus(_queue(), gpus)])
        stacks.append(tmp_path / f"Pulumi.lab{gpus}.yaml")
        adopt = ["adopt", "--manifests", str(folder), "--context", "prod", "--out", str(stacks[-1])]
        assert main(adopt) == 0
    arguments = ["diff", f"lab={stacks[1]}", "--base", f"lab={stacks[0]}"]
    capsys.readouterr()
    assert main([*arguments, "--fail-on", "loss"]) == 1
    shown = capsys.readouterr()
    assert "`vision` `nvidia.com/gpu` 8 to 6 of flavor `h100`" in shown.out
    assert "team vision loses quota of nvidia.com/gpu of flavor h100" in shown.err
    assert main([*arguments, "--explain", "vision"]) == 0
    assert "`vision` loses quota of `nvidia.com/gpu`" in capsys.readouterr().out


def test_a_key_that_is_there_twice_is_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = _write(tmp_path / "base", [_queue()])
    text = (base / "objects.yaml").read_text()
    head = tmp_path / "head.yaml"
    head.write_text(text.replace("  name: vision\n", "  name: vision\n  name: nlp\n"))
    error = _refused(capsys, base, head)
    assert "head.yaml:5: 'name' is written twice, in lines 4 and 5." in error
    assert "begin another object by a line `---`" in error


def test_fail_on_and_json_are_those_of_stacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, head = _write(tmp_path / "base", [_queue()]), _write(tmp_path / "head", [_with_gpus(_queue(), 6)])
    arguments = ["diff", "--manifests", str(base), str(head), "--json", "--fail-on", "loss"]
    assert main(arguments) == 1
    assert json.loads(capsys.readouterr().out)


def test_a_field_that_is_not_understood_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = _write(tmp_path / "base", [_queue(newPolicy="Fast")])
    report = _diff(capsys, base, _write(tmp_path / "head", [_queue(newPolicy="Slow")]))
    assert "ClusterQueue vision: spec.newPolicy" in report
    assert 'is not compared, and changes from "Fast" to "Slow".' in report
    assert "is the same on both sides" in _diff(capsys, base, base)


def test_resources_that_no_pool_counts_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def licences(count: int) -> dict[str, Any]:
        queue = _queue()
        flavors = [{"name": "site", "resources": [{"name": "example.com/seat", "nominalQuota": count}]}]
        group = {"coveredResources": ["example.com/seat"], "flavors": flavors}
        queue["spec"]["resourceGroups"].append(group)
        return queue

    base, head = _write(tmp_path / "base", [licences(4)]), _write(tmp_path / "head", [licences(2)])
    assert "| `team vision: quota of example.com/seat in site` | `4` | `2` |" in _diff(capsys, base, head)


def test_files_without_queues_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret.yaml").write_text(_SECRET)
    message = _refused(capsys, "none", tmp_path)
    assert "no object of Kueue or KAI is among 1 object" in message
    assert "hunter2" not in message


def test_a_version_that_is_not_known_is_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = _write(
        tmp_path / "head", [_queue(), {**_queue("speech"), "apiVersion": "kueue.x-k8s.io/v1alpha1"}]
    )
    line = (head / "objects.yaml").read_text().splitlines().index("---") + 2
    message = _refused(capsys, "none", head)
    assert f"objects.yaml:{line}: ClusterQueue speech is of kueue.x-k8s.io/v1alpha1" in message
    assert "Fix: write it as kueue.x-k8s.io/v1beta2" in message


def test_an_object_that_is_there_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = _refused(capsys, "none", _write(tmp_path / "head", [_queue(), _queue()]))
    assert "ClusterQueue vision is in " in message


def test_a_template_is_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text("kind: ClusterQueue\nmetadata: {{ .Values.name }}: x\n")
    message = _refused(capsys, "none", file)
    assert "queue.yaml:2: is not YAML" in message
    assert "helm template" in message


def test_stacks_and_manifests_are_not_compared_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(_write(tmp_path / "head", [_queue()]))
    assert main(["diff", "local", "--manifests", folder, folder]) == 2
    assert "takes the place of stacks" in capsys.readouterr().err


def test_the_base_install_is_enough(tmp_path: Path) -> None:
    folder = _write(tmp_path / "head", [_queue()])
    code = (
        "import sys\n"
        "for name in ('pulumi', 'aiohttp', 'msgspec', 'grpc', 'google', 'boto3'): sys.modules[name] = None\n"
        "from muster.cli import main\n"
        f"sys.exit(main(['diff', '--manifests', 'none', {str(folder)!r}]) "
        f"or main(['render', {str(_STACKS[0])!r}]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "`vision` +8 H100" in found.stdout


# Where the sides come from


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On main 8 GPUs in the folder `queues`; not committed, 6."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "queues", [_queue()])
    commit(tmp_path)
    _write(tmp_path / "queues", [_with_gpus(_queue(), 6)])
    return tmp_path


@pytest.mark.parametrize("base", ["main", "main:queues", "HEAD:queues/objects.yaml", "main:./queues"])
def test_a_side_is_a_git_revision(base: str, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "**`vision` -2 H100**" in _diff(capsys, base, repository / "queues")


def test_a_path_that_a_revision_lacks_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothere does not exist at main" in _refused(capsys, "main:nothere", repository / "queues")
    assert "no git revision" in _refused(capsys, "mian", repository / "queues")


def test_a_repository_of_another_user_has_gits_own_remedy(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Git's own switch for its tests: as if somebody else owned every repository.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert main(["diff", "--manifests", "main", str(repository / "queues")]) == 3
    assert f"git config --global --add safe.directory {repository}" in capsys.readouterr().err


def test_a_side_is_standard_input(tmp_path: Path) -> None:
    base = _write(tmp_path / "base", [_queue()])
    rendered = yaml.safe_dump_all(
        [_with_gpus(_queue(), 6), *yaml.safe_load_all("\n---\n".join([_SECRET] * 300))]
    )
    command = [sys.executable, "-m", "muster", "diff", "--manifests", str(base), "-"]
    found = subprocess.run(command, input=rendered, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "**`vision` -2 H100**" in found.stdout
    assert "hunter2" not in found.stdout + found.stderr


def test_a_kustomization_that_patches_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = _write(tmp_path / "head", [_queue()])
    (head / "kustomization.yaml").write_text("resources: [objects.yaml]\n")
    assert "`vision` +8 H100" in _diff(capsys, "none", head)
    (head / "kustomization.yaml").write_text("resources: [objects.yaml]\npatches: [{path: p.yaml}]\n")
    assert "changes objects (patches) and is not applied here" in _refused(capsys, "none", head)


# What is read


def test_an_old_version_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = _queue(flavorFungibility={"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"})
    old = json.loads(json.dumps(new)) | {"apiVersion": "kueue.x-k8s.io/v1beta1"}
    old["spec"]["cohort"] = old["spec"].pop("cohortName")
    old["spec"]["flavorFungibility"] = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
    base, head = _write(tmp_path / "base", [old]), _write(tmp_path / "head", [new])
    assert "**Nothing changes.**" in _diff(capsys, base, head)


def _kai_queue(name: str, parent: str = "", *, gpus: int = 8, **more: Any) -> dict[str, Any]:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    above = {"parentQueue": parent} if parent else {}
    gpu = {"quota": gpus, "limit": -1, "overQuotaWeight": 2}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**above, "resources": {"gpu": gpu, "cpu": free, "memory": free, **more}},
    }


def test_queues_of_kai_are_compared_with_parents_and_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = _write(tmp_path / "base", [_kai_queue("lab", gpus=16), _kai_queue("vision", "lab")])
    changed = _kai_queue("vision", "lab", gpus=6)
    changed["spec"]["resources"]["gpu"]["overQuotaWeight"] = 5
    head = _write(tmp_path / "head", [_kai_queue("lab", gpus=16), changed])
    report = _diff(capsys, base, head)
    assert "**`vision` -2 GPU**" in report
    assert "| `vision` | `lab / vision` | GPU | 8 → 6 | unlimited | 2 → 5 |" in report
    assert main(["diff", "--manifests", str(base), str(head), "--fail-on", "loss"]) == 1
    assert "Queue vision loses guaranteed quota: -2 GPU" in capsys.readouterr().err


def test_a_folder_with_both_schedulers_has_a_report_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = _diff(capsys, "none", _write(tmp_path / "head", [_queue(), _kai_queue("vision")]))
    assert "`head-kueue`" in report
    assert "`head-kai`" in report


def _lending(amount: int) -> dict[str, Any]:
    queue = _queue()
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = amount
    return queue


@pytest.mark.parametrize(
    ("objects", "finding"),
    [
        ([_queue(), _flavor("l4")], "ResourceFlavor h100"),
        ([_queue(), _flavor("h100"), _flavor("a100")], "is named by no queue, so no job gets it."),
        ([_queue(), _local_queue("visoin")], "visoin"),
        (
            [_queue(admissionChecks=["prov"])],
            "the API server drops it: write them as admissionChecksStrategy.admissionChecks",
        ),
        ([_lending(4)], "lends 4 nvidia.com/gpu of h100, and no other queue of its cohorts may borrow it."),
        ([_kai_queue("vision", "labb")], "names parent 'labb', which is in no file."),
        ([_kai_queue("vision", cpu={})], "KAI starts nothing in the queue."),
        (
            [_kai_queue("lab", gpus=8), _kai_queue("a", "lab"), _kai_queue("b", "lab")],
            "has a quota of 8, and the 2 queues below have 16 in sum.",
        ),
    ],
)
def test_what_schedulers_accept_in_silence_is_found(
    objects: list[dict[str, Any]], finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finding in _diff(capsys, "none", _write(tmp_path / "head", objects))


def test_lending_that_a_neighbour_may_borrow_is_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Worth a look" not in _diff(
        capsys, "none", _write(tmp_path / "head", [_lending(4), _queue("speech")])
    )


def test_a_replay_of_manifests_decides_in_the_flavors_of_each_side(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What the player is given: a job with a selector of the flavor's own fits no flavor without labels, and
    no namespace of the queues may be missing.
    """
    labels = {"example.com/gpu": "h100"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    flavor = _flavor("h100", nodeLabels=labels, nodeTaints=[taint])
    objects = [flavor, _with_gpus(_queue(), 4), _local_queue("vision")]
    folder = str(_write(tmp_path / "head", objects))
    name, base, head = load_stacks(folder, folder)
    assert (name, base) == ("head", head)
    played = {(each["kind"], each["metadata"]["name"]): each for each in queues_of(head).objects}
    assert played["ResourceFlavor", "h100"]["spec"]["nodeLabels"] == labels
    assert played["ResourceFlavor", "h100"]["spec"]["nodeTaints"] == [taint]
    assert ("Namespace", "vision") in played
    assert [pool.max_gpus for pool in head.pools] == [4]


def test_manifests_of_kai_are_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(ROOT / "stacks/Pulumi.kai-prod.yaml")]) == 0
    folder = str(tmp_path / "kai.yaml")
    (tmp_path / "kai.yaml").write_text(capsys.readouterr().out)
    assert main(["what-if", "--manifests", folder, folder, "--snapshot", "snapshot.json"]) == 2
    error = capsys.readouterr().err
    assert "KAI decides by those of every pool" in error
    assert "muster adopt" in error
