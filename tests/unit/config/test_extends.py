"""A stack file that extends another means the same to every reader, and mistakes keep their own lines."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster import config
from muster.cli import main
from muster.config.document import parse_text
from muster.config.project import load_document
from muster.policies import pack
from muster.policies.credentials import plain_config
from muster.policies.registered import Registered
from muster.policies.rule import Case
from muster.render import tenancy
from tests.unit.preview.preview_world import commit

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLE: Final = ROOT / "examples" / "environments" / "stacks"
PROJECT: Final = """\
name: muster
runtime: python
stackConfigDir: stacks
config:
  muster:cluster: {type: object}
  muster:pools: {type: object}
  muster:departments: {type: object}
  muster:priorities: {type: object, default: {}}
  muster:scheduler: {type: string, default: kueue}
  muster:extends: {type: string, default: ""}
"""
BASE: Final = """\
config:
  muster:cluster: {provider: existing, name: a, context: a}
  muster:pools:
    cpu: {machine: local-cpu, maxNodes: 4}
    l4:
      machine: local-l4
      maxNodes: 8
  muster:priorities: {prod: 1000, dev: 100}
  muster:scheduler: kai
  muster:departments: {research: {teams: {team-a: {quota: {l4: 4}}, team-b: {quota: {l4: 2}}}}}
"""
PROD: Final = """\
config:
  muster:extends: base
  muster:cluster: {name: b}
  muster:pools: {l4: {maxNodes: 16}}
  muster:departments: {research: {teams: {team-b: null, team-c: {quota: {l4: 1}}}}}
"""


def written(folder: Path, **files: str) -> Path:
    """A project; the files by name, `prod` is the stack."""
    stacks = folder / "stacks"
    stacks.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    for name, text in ({"base": BASE, "prod": PROD} | files).items():
        (stacks / (f"Pulumi.{name}.yaml" if name == "prod" else f"{name}.yaml")).write_text(text)
    return stacks / "Pulumi.prod.yaml"


def handed_over(path: Path) -> dict[str, object]:
    """What Pulumi's engine passes: the stack's own file and the project's defaults, as JSON texts."""
    own = parse_text(path.read_text(), source="").values
    values = {"muster:priorities": {}, "muster:scheduler": "kueue", "muster:extends": "", **own}
    return {key: each if isinstance(each, str) else json.dumps(each) for key, each in values.items()}


def refused(path: Path) -> str:
    with pytest.raises(config.ConfigError) as error:
        config.load(path)
    return str(error.value)


def test_mappings_are_merged_values_replace_and_null_removes(tmp_path: Path) -> None:
    stack = config.load(written(tmp_path))
    assert stack.cluster.name == "b"
    assert {pool.name: pool.max_nodes for pool in stack.pools} == {"cpu": 4, "l4": 16}
    assert [team.name for team in stack.departments[0].teams] == ["team-a", "team-c"]
    assert stack.scheduler.value == "kai"


def test_a_list_replaces_the_whole_list(tmp_path: Path) -> None:
    prod = PROD + "  muster:images: {pullSecrets: [c]}\n"
    path = written(tmp_path, base=BASE + "  muster:images: {pullSecrets: [a, b]}\n", prod=prod)
    assert load_document(path).values["muster:images"] == {"pullSecrets": ["c"]}


def test_the_program_reads_the_stack_that_validate_reads(tmp_path: Path) -> None:
    """Defaults of Pulumi.yaml, which the engine passes like values of the stack, come after the base."""
    path = written(tmp_path)
    assert config.parse(handed_over(path), source=path) == config.load(path)


def test_a_base_may_extend_another_and_the_nearest_goes_before(tmp_path: Path) -> None:
    """What one file removes does not come back from below it."""
    middle = "config:\n  muster:extends: base\n  muster:priorities: {dev: null, prod: 7}\n"
    path = written(tmp_path, middle=middle, prod=PROD.replace("base", "middle"))
    assert {each.name: each.value for each in config.load(path).priorities} == {"prod": 7}
    assert config.parse(handed_over(path), source=path) == config.load(path)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"base": BASE.replace("local-l4", "local-l5")}, "stacks/base.yaml:6: muster:pools.l4.machine: "),
        ({"prod": PROD.replace("16", "many")}, "stacks/Pulumi.prod.yaml:4: muster:pools.l4.maxNodes: "),
        ({"base": BASE + "  muster:kia: {}\n"}, "stacks/base.yaml:11: muster:kia: "),
        ({"base": BASE + "  muster:pools: {}\n"}, "stacks/base.yaml:11: muster:pools: is written twice"),
        ({"base": "config: ["}, "stacks/base.yaml:1: is not YAML"),
        ({"base": "muster:pools: {}"}, "stacks/base.yaml:1: has no mapping `config:`"),
    ],
    ids=str,
)
def test_a_mistake_is_reported_at_the_line_of_its_file(
    tmp_path: Path, files: Mapping[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, **files)
    assert expected in refused(path)
    assert main(["validate", str(path)]) == 1
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"base": BASE + "  muster:extends: base\n"},
            "stacks/base.yaml:11: muster:extends: goes in a circle",
        ),
        ({"prod": PROD.replace("base", "Pulumi.prod")}, "Pulumi.prod.yaml -> Pulumi.prod.yaml"),
        (
            {"base": BASE + "  muster:extends: b\n", "b": "config: {muster:extends: base}"},
            "stacks/b.yaml:1: muster:extends: goes in a circle: base.yaml -> b.yaml -> base.yaml",
        ),
        ({"prod": PROD.replace("base", "bse")}, "Pulumi.prod.yaml:2: muster:extends: names bse.yaml"),
        ({"prod": PROD.replace("base", "bse")}, "write it, or name one of: base"),
        ({"prod": PROD.replace("base", "../base")}, "must be the name of a file in the same folder"),
        ({"prod": PROD.replace("base", "[base]")}, "must be the name of a file in the same folder"),
        (
            {"base": BASE + "  muster:extends: b1\n"}
            | {f"b{n}": f"config: {{muster:extends: b{n + 1}}}" for n in range(1, 9)},
            "stacks/b7.yaml:1: muster:extends: has more than 8 files below the stack",
        ),
    ],
    ids=str,
)
def test_a_chain_without_an_end_is_one_error(tmp_path: Path, files: Mapping[str, str], expected: str) -> None:
    path = written(tmp_path, **files)
    message = refused(path)
    assert expected in message
    assert message.count("fix:") == 1
    with pytest.raises(config.ConfigError) as error:
        config.parse(handed_over(path), source=path)
    assert str(error.value) == message


def test_a_secret_is_not_inherited(tmp_path: Path) -> None:
    """Also a base with the same salt: the engine decrypts the stack's own file only."""
    base = BASE + "  muster:charts:\n    password: {secure: AAABAI}\nencryptionsalt: v1:x\n"
    message = refused(written(tmp_path, base=base))
    assert "stacks/base.yaml:12: muster:charts.password: is a secret. Pulumi decrypts" in message
    assert message.count("fix:") == 1


def test_a_secret_of_the_stack_itself_replaces_what_it_inherits(tmp_path: Path) -> None:
    base = BASE + "  muster:charts: {password: {secure: AAABAI}}\n"
    prod = PROD + "  muster:charts: {password: {secure: BBB}}\n"
    document = load_document(written(tmp_path, base=base, prod=prod))
    assert document.values["muster:charts"] == {"password": {"secure": "BBB"}}
    assert not document.violations


def test_a_key_that_the_engine_requires_is_written_in_the_stack_itself(tmp_path: Path) -> None:
    lines = [line for line in PROD.splitlines() if "pools" not in line]
    path = written(tmp_path, prod="\n".join(lines))
    assert "Pulumi.prod.yaml:2: muster:extends: takes muster:pools from another file" in refused(path)
    path.write_text("\n".join([*lines, "  muster:pools: {}"]))
    assert [pool.max_nodes for pool in config.load(path).pools] == [4, 8]


def test_a_whole_key_cannot_be_removed(tmp_path: Path) -> None:
    message = refused(written(tmp_path, prod=PROD + "  muster:priorities:\n"))
    assert "Pulumi.prod.yaml:6: muster:priorities: is empty" in message


def test_two_stacks_with_the_cluster_of_their_base_are_refused(tmp_path: Path) -> None:
    shared = (EXAMPLE / "base.yaml").read_text().replace("provider: gke", "provider: gke\n    name: ml")
    prod = "config: {muster:extends: base, muster:cluster: {}, muster:pools: {}, muster:departments: {}}"
    path = written(tmp_path, base=shared, prod=prod)
    (path.parent / "Pulumi.dev.yaml").write_text(path.read_text())
    assert "is also described by stack dev" in refused(path)


def test_a_diff_reads_the_base_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    middle = "config:\n  muster:extends: base\n"
    path = written(tmp_path, middle=middle, prod=PROD.replace("base", "middle"))
    monkeypatch.chdir(tmp_path)
    commit(tmp_path)
    (path.parent / "base.yaml").write_text(BASE.replace("quota: {l4: 4}", "quota: {l4: 6}"))
    assert main(["diff", "prod"]) == 0
    printed = capsys.readouterr().out
    assert "mistake" not in printed
    assert "Guaranteed `l4` GPU in sum: 5 → 7." in printed


def test_the_policy_pack_reads_the_same_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_STACK", "prod")
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(handed_over(path)))
    pack._described.cache_clear()
    assert pack._described().stack == config.load(path)
    pack._described.cache_clear()


def test_a_credential_in_clear_text_is_found_in_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, base=BASE + "  other:token: abc\n")
    monkeypatch.chdir(tmp_path)
    case = Case(Registered(()), {"folder": "stacks"}, stack_name="prod")
    assert [each.message for each in plain_config(case)] == [
        "base.yaml: other:token looks like a credential and is in clear text."
    ]


def test_show_prints_a_stack_that_means_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, prod=PROD + "  muster:scheduler: kueue\n  muster:gangAdmission: off\n")
    for options in ([], ["--origins"]):
        assert main(["show", str(path), *options]) == 0
        alone = tmp_path / "alone.yaml"
        alone.write_text(capsys.readouterr().out)
        assert config.load(alone) == config.load(path)
    assert main(["show", str(path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["config"]["muster:gangAdmission"] == "off"
    assert record["poolOrder"] == ["cpu", "l4"]


def test_show_names_the_file_and_the_line_of_every_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    assert main(["show", str(path), "--origins"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "machine: local-l4  # base.yaml:6" in lines
    assert "maxNodes: 16  # Pulumi.prod.yaml:4" in lines
    assert "team-a:  # base.yaml:10" in lines
    assert all("#" in line for line in lines[1:])
    assert main(["show", str(path), "--origins", "--json"]) == 0
    origins = json.loads(capsys.readouterr().out)["origins"]
    assert origins["muster:pools.l4.machine"] == {"file": str(path.parent / "base.yaml"), "line": 6}
    assert origins["muster:pools.l4.maxNodes"] == {"file": str(path), "line": 4}


def test_show_prints_the_policies_in_lines_that_mean_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "stacks" / "Pulumi.local.yaml"
    assert main(["show", path.as_posix(), "--policies"]) == 0
    shown = list(yaml.safe_load_all(capsys.readouterr().out))
    stack = config.load(path)
    rendered = tenancy.admission_objects(stack)
    assert without_space(shown) == without_space(rendered)
    rules = [each for policy in shown for each in policy["spec"].get("variables", ())]
    lines = [line for each in rules for line in each["expression"].splitlines()]
    assert max(map(len, lines)) < 260, "an expression stands on one line"


def without_space(value: Any) -> Any:
    """The same without white space outside of CEL's strings."""
    if isinstance(value, str):
        return re.sub(r"('(?:[^'\\]|\\.)*')|\s+", lambda found: found[1] or "", value)
    if isinstance(value, Mapping):
        return {key: without_space(each) for key, each in value.items()}
    return [without_space(each) for each in value] if isinstance(value, list | tuple) else value


def test_show_reports_what_cannot_be_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(written(tmp_path, prod=PROD.replace("base", "bse")))]) == 2
    assert "names bse.yaml" in capsys.readouterr().err


def test_a_plain_stack_has_no_inherited_values(tmp_path: Path) -> None:
    path = written(tmp_path, prod=BASE)
    document = load_document(path)
    assert set(document.inherited) == {"muster:extends"}
    assert config.parse(handed_over(path), source=path) == config.load(path)


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_example_is_valid(name: str) -> None:
    assert config.load(EXAMPLE / f"Pulumi.{name}.yaml").cluster.name == f"ml-{name}"


def test_the_json_of_validate_names_the_file_of_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prod = PROD.replace("16", "many")
    path = written(tmp_path, base=BASE.replace("local-l4", "local-l5"), prod=prod)
    assert main(["validate", str(path), "--json"]) == 1
    (checked,) = json.loads(capsys.readouterr().out)["files"]
    places = {each["path"]: (each.get("file"), each["line"]) for each in checked["violations"]}
    assert places["muster:pools.l4.machine"] == (str(path.parent / "base.yaml"), 6)
    assert places["muster:pools.l4.maxNodes"] == (None, 4)
