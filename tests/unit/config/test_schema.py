"""The JSON Schema of stack files and the readers accept the same keys, words, ranges and defaults."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from muster.cli import main
from muster.config.document import NAMESPACE, Document, parse_text
from muster.config.edit import template
from muster.config.schema import part_schema, stack_schema
from muster.config.schema.writer import of_definition
from muster.config.stack import examine
from muster.model import definitions
from muster.model.definitions import Spec
from muster.model.machines import MACHINES
from muster.model.regions import Provider
from muster.model.section import Section
from muster.model.violations import at
from muster.scaffold.project import Target, stack_text

ROOT: Final = Path(__file__).resolve().parents[3]
SCHEMA: Final = stack_schema()
VALIDATOR: Final = Draft202012Validator(SCHEMA)
PART: Final = Draft202012Validator(part_schema())
INVENTED: Final = "inventedKey"
# Keys that a reader knows only to refuse them with a better fix.
REFUSED: Final = {"flavors": "gangAdmission", "multiKueue": "kueue", "connectionString": "usageDBConfig"}

MAXIMAL: Final = sorted((Path(__file__).parent / "stacks").glob("*.yaml"))
SHIPPED: Final = sorted(
    [
        *(ROOT / "stacks").glob("Pulumi.*.yaml"),
        *(ROOT / "examples/stories").glob("*/stack.yaml"),
        *(ROOT / "examples/stories").glob("*/before.yaml"),
        *(ROOT / "examples/on-premises").glob("stacks/*.yaml"),
        *(ROOT / "examples/forty-teams").glob("stacks/*.yaml"),
        *(ROOT / "examples/library").glob("*/[a-z]*.yaml"),
        *(ROOT / "examples/adopted").glob("Pulumi.*.yaml"),
        ROOT / "tests/unit/model/everything.yaml",
        ROOT / "tests/unit/model/preempting.yaml",
        ROOT / "tests/kai/every-field.yaml",
    ]
)


def refusals(config: Mapping[str, object]) -> list[str]:
    """What the schema refuses in Muster's keys."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors({"config": config})]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [*SHIPPED, *MAXIMAL], ids=named)
def test_every_shipped_stack_fits_and_may_be_a_part(path: Path) -> None:
    document = parse_text(path.read_text(encoding="utf-8"), source=str(path))
    assert document.values
    assert refusals(document.values) == []
    assert [error.message for error in PART.iter_errors({"config": document.values})] == []


@pytest.mark.parametrize("target", Target)
def test_every_template_fits(target: Target) -> None:
    document = parse_text(stack_text(target, "dev"), source="Pulumi.dev.yaml")
    assert refusals(document.values) == []


def test_keys_of_pulumi_and_of_other_programs_are_left_alone() -> None:
    stack = yaml.safe_load(template("dev", Provider.GKE))
    stack |= {
        "secretsprovider": "gcpkms://x",
        "encryptedkey": "x",
        "encryptionsalt": "v1:x",
        "environment": ["a"],
    }
    stack["config"] |= {"gcp:project": "mine", "kubernetes:context": {"any": ["thing"]}}
    assert VALIDATOR.is_valid(stack)
    stack["config"]["muster:pool"] = {}
    assert not VALIDATOR.is_valid(stack)


def test_the_keys_are_those_of_the_project_file() -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert set(SCHEMA["properties"]["config"]["properties"]) == set(project["config"])


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


@dataclass
class Asked:
    """What the readers asked of the sections of a stack: path -> key -> kinds of questions."""

    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    choices: list[tuple[str, str, type[StrEnum], StrEnum | None]] = field(default_factory=list)
    numbers: list[tuple[str, str, float | None, float, float]] = field(default_factory=list)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    get, choice, integer, number = Section.get, Section.choice, Section.integer, Section.number

    def asked_get(self: Section, key: str) -> object:
        found.keys[self.path].add(key)
        return get(self, key)

    def asked_choice(self: Section, key: str, words: Any, default: Any = None) -> Any:
        found.choices.append((self.path, key, words, default))
        return choice(self, key, words, default)

    def asked_integer(
        self: Section, key: str, default: int | None = None, *, least: int = 0, most: int = 2**31 - 1
    ) -> int | None:
        found.numbers.append((self.path, key, default, least, most))
        return integer(self, key, default, least=least, most=most)

    def asked_number(self: Section, key: str, *, least: float = 0, most: float = 1e9) -> float | None:
        found.numbers.append((self.path, key, None, least, most))
        return number(self, key, least=least, most=most)

    read_spec = definitions.read_spec

    def asked_spec(kind: type[Spec], section: Section) -> Spec:
        """A section in another project's words is judged by its schema itself."""
        for place, node in sections(of_definition(kind.schema()), section._values, section.path):
            found.keys[place] |= set(node.get("properties", {}))
        return read_spec(kind, section)

    monkeypatch.setattr(definitions, "read_spec", asked_spec)
    for name, method in {
        "get": asked_get,
        "choice": asked_choice,
        "integer": asked_integer,
        "number": asked_number,
    }.items():
        monkeypatch.setattr(Section, name, method)
    return found


Node = dict[str, Any]


def parts(node: Node, value: object) -> Iterator[Node]:
    """The schemas that apply to a value, without references and alternatives; None is an absent value."""
    if "$ref" in node:
        yield from parts(SCHEMA["$defs"][node["$ref"].removeprefix("#/$defs/")], value)
    elif "anyOf" in node:
        for each in node["anyOf"]:
            kind = "object" if value is None or isinstance(value, Mapping) else "array"
            if "$ref" in each or kind in each.get("type", ""):
                yield from parts(each, value)
    elif "allOf" in node:
        for each in node["allOf"]:
            if Draft202012Validator(each["if"]).is_valid(value):
                yield from parts(each["then"], value)
    else:
        yield node


def sections(node: Node, value: object, path: str) -> Iterator[tuple[str, Node]]:
    """Every mapping of a stack, the absent ones too, with its schema."""
    for part in parts(node, value):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from sections(part["items"], item, at(path, index))
            continue
        if "properties" not in part and "additionalProperties" not in part:
            continue
        yield path, part
        written = value if isinstance(value, Mapping) else {}
        for key, below in part.get("properties", {}).items():
            yield from sections(below, written.get(key), at(path, key))
        for key in set(written) - set(part.get("properties", {})):
            if isinstance(part.get("additionalProperties"), dict):
                yield from sections(part["additionalProperties"], written[key], at(path, key))


def read(path: Path) -> tuple[Document, dict[str, Node]]:
    """A stack that was read without an unknown key, and its sections."""
    document = parse_text(path.read_text(encoding="utf-8"), source=str(path))
    _, violations = examine(document)
    assert [each for each in violations if "not a key" in each.message] == []
    return document, dict(places(document.values))


def places(values: Mapping[str, object]) -> Iterator[tuple[str, Node]]:
    config = SCHEMA["properties"]["config"]["properties"]
    for key, node in config.items():
        yield from sections(node, values.get(key), key)


def key_of(node: Node, name: str) -> Node | None:
    """The schema of a key: declared, or chosen by the user."""
    other = node.get("additionalProperties")
    found = node.get("properties", {}).get(name) or (other if isinstance(other, dict) else None)
    if found is None or "$ref" not in found:
        return found
    return next(parts(found, ""))


def words_of(node: Node) -> list[object]:
    found = [word for each in node.get("anyOf", [node]) for word in each.get("enum", [each.get("const")])]
    return [word for word in found if word is not None]


@pytest.mark.parametrize("path", MAXIMAL, ids=named)
def test_the_schema_has_every_key_that_a_reader_asks_for(path: Path, asked: Asked) -> None:
    _, known = read(path)
    assert set(asked.keys) <= {NAMESPACE, *known}
    for place, node in known.items():
        if node.get("additionalProperties") is False:
            wanted = {key for key in asked.keys[place] if not place.endswith(REFUSED.get(key, "-"))}
            assert wanted <= set(node["properties"]), place


@pytest.mark.parametrize("path", MAXIMAL, ids=named)
def test_words_ranges_and_defaults_are_those_of_the_readers(path: Path, asked: Asked) -> None:
    _, known = read(path)
    compared = 0
    for place, name, words, choice in asked.choices:
        if name == "provider":
            continue  # the word that chose the schema
        node = node_at(known, place, name)
        if node is not None:
            assert words_of(node) == [word.value for word in words], (place, name)
            assert choice is None or node.get("default", choice.value) == choice.value, (place, name)
            compared += 1
    for place, name, default, least, most in asked.numbers:
        node = node_at(known, place, name)
        assert node is not None, (place, name)
        # A value of its own, or in place of a mapping.
        node = next((each for each in node.get("anyOf", ()) if "minimum" in each), node)
        assert (node["minimum"], node["maximum"]) == (least, most), (place, name)
        assert default is None or node.get("default", default) == default, (place, name)
        compared += 1
    assert compared > 20


def node_at(known: Mapping[str, Node], place: str, name: str) -> Node | None:
    if place == NAMESPACE:
        found: Node = SCHEMA["properties"]["config"]["properties"][f"{NAMESPACE}{name}"]
        return found if "properties" not in found else None
    return key_of(known[place], name)


@pytest.mark.parametrize("path", MAXIMAL, ids=named)
def test_an_invented_key_is_refused_by_both_wherever_it_is(path: Path) -> None:
    document, known = read(path)
    values = copy.deepcopy(dict(document.values))
    expected = {at(place, INVENTED) for place in invent(values, known)}
    assert len(expected) > 4
    _, violations = examine(Document("stack", values))
    assert {each.path for each in violations if each.path.endswith(INVENTED)} == expected
    errors = VALIDATOR.iter_errors({"config": values})
    assert {at(location(error), INVENTED) for error in unknown_keys(errors)} == expected


def invent(values: dict[str, Any], known: Mapping[str, Node]) -> list[str]:
    """Put an invented key into every mapping that is closed; their paths."""

    def walk(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from walk(item, at(path, index))
        elif isinstance(value, dict):
            for key, item in list(value.items()):
                yield from walk(item, at(path, key))
            if path in known and known[path].get("additionalProperties") is False:
                value[INVENTED] = "x"
                yield path

    return [place for key, value in values.items() for place in walk(value, key)]


def unknown_keys(errors: Any) -> Iterator[ValidationError]:
    for error in errors:
        if error.validator == "additionalProperties" and INVENTED in error.message:
            yield error
        yield from unknown_keys(error.context or ())


def location(error: ValidationError) -> str:
    return at(*[part for part in error.absolute_path if part != "config"])


MINIMAL: Final = """\
config:
  muster:cluster: {provider: existing, name: a, context: a}
  muster:pools:
    cpu: {machine: local-cpu, maxNodes: 4}
    l4: {machine: local-l4, maxNodes: 8%(pool)s}
  muster:departments: {research: {teams: {team-a: {quota: {%(quota)s}%(team)s}, team-b: }}}
%(more)s
"""
FORMS: Final = [
    {"quota": "l4: 4"},
    {"quota": "l4: unlimited"},
    {"quota": "cpu: 4"},
    {"quota": "cpu: 1.5"},
    {"quota": "cpu: 500m"},
    {"quota": "l4: {gpus: 1, cpu: 2, memory: 4Gi, resources: {rdma/hca: 1}}"},
    {"team": ", borrow: all"},
    {"team": ", borrow: {l4: all, cpu: 2}, lend: none"},
    {"team": ", kai: {gpu: {quota: 0.5, limit: unlimited}, memory: {limit: 16Gi}}"},
    {"pool": ", parameters: {maxRunDurationSeconds: 3600}"},
    {"pool": ", parameters: {maxRunDurationSeconds: '3600'}"},
    {"pool": ", maxRunDuration: 1h30m"},
    {"pool": ", reservation: a"},
    {"pool": ", reservation: {name: a, project: b}"},
    {"more": "  muster:gangAdmission: off"},
    {"more": "  muster:gangAdmission: {provisionTimeout: 2h, retry: {base: 30s}}"},
    {"more": "  muster:gangAdmission: {placeholderImage: example.com/pause@sha256:0, onStaggered: hold}"},
    {"more": "  muster:gangAdmission: {managedResources: [nvidia.com/gpu], kai: {overQuota: allow}}"},
    {"more": "  muster:tenancy: warn"},
    {"more": "  muster:tenancy: {mode: warn, objects: {pods: 7}}"},
    {"more": "  muster:image: ''"},
    {"more": "  muster:kai:"},
]
MISTAKES: Final = [
    {"quota": "l4: -1"},
    {"quota": "l4: many"},
    {"quota": "cpu: true"},
    {"quota": "l4: [4]"},
    {"team": ", borrow: some"},
    {"team": ", borrow: 4"},
    {"team": ", weight: 0"},
    {"team": ", priorities: prod"},
    {"team": ", kai: {gpu: {quota: -1}}"},
    {"pool": ", minNodes: '1'"},
    {"pool": ", maxRunDuration: 30"},
    {"pool": ", maxRunDuration: ''"},
    {"pool": ", efa: 'yes'"},
    {"pool": ", accelerator: nvidia-l5"},
    {"pool": ", capacity: queue"},
    {"pool": ", reservation: {project: b}"},
    {"pool": ", labels: {a: 1}"},
    {"pool": ", kueue: {nodeTaints: [{key: a}]}"},
    {"more": "  muster:gangAdmission: on"},
    {"more": "  muster:gangAdmission: {provisionTimeout: 2 hours}"},
    {"more": "  muster:gangAdmission: {flavors: []}"},
    {"more": "  muster:gangAdmission: {retry: {perMinute: '3'}}"},
    {"more": "  muster:tenancy: {objects: {pod: 7}}"},
    {"more": "  muster:priorities: {prod: high}"},
    {"more": "  muster:scheduler: slurm"},
    {"more": "  muster:kueue: {multiKueue: {}}"},
]


def written(form: Mapping[str, str]) -> Document:
    filled = {"pool": "", "quota": "l4: 4", "team": "", "more": "", **form}
    return parse_text(MINIMAL % filled, source="stack")


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_of_a_value_is_accepted_by_both(form: Mapping[str, str]) -> None:
    document = written(form)
    assert refusals(document.values) == []
    malformed = ("must be", "not a key", "not allowed", "not a field", "unknown", "is missing")
    assert [
        str(each) for each in examine(document)[1] if any(word in each.message for word in malformed)
    ] == []


@pytest.mark.parametrize("form", MISTAKES, ids=str)
def test_a_mistake_is_refused_by_both(form: Mapping[str, str]) -> None:
    document = written(form)
    assert refusals(document.values) != []
    assert [each for each in examine(document)[1] if each.level == "error"] != []


def test_a_file_that_is_a_part_may_leave_out_and_remove_every_key() -> None:
    for part in (
        "muster:extends: base",
        "muster:pools: {l4: {maxNodes: 16}, t4: null}",
        "muster:cluster: {name: ml-prod}",
        "muster:departments: {a: {teams: {b: {quota: {l4: 10, t4: null}, priorities: null}}}}",
        "muster:gangAdmission: {retry: {base: null}}",
    ):
        assert PART.is_valid({"config": yaml.safe_load(part)}), part


@pytest.mark.parametrize(
    "part",
    [
        "muster:pools: {l4: {maxNodes: many}}",
        "muster:pools: {l4: {maxNode: 16}}",
        "muster:scheduler: slurm",
        "muster:cluster: {provider: gke, regoin: a}",
        "muster:departments: {a: {teams: {b: {priorities: prod}}}}",
    ],
)
def test_a_mistake_in_a_part_is_refused(part: str) -> None:
    assert not PART.is_valid({"config": yaml.safe_load(part)})


def test_every_machine_can_be_completed() -> None:
    pool = SCHEMA["$defs"]["pool"]["properties"]
    assert pool["machine"]["anyOf"][0]["enum"] == sorted(MACHINES)


def test_every_key_has_a_sentence_that_ends() -> None:
    def lacking(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, list):
            for each in node:
                yield from lacking(each, path)
        elif isinstance(node, dict):
            for key, below in node.get("properties", {}).items():
                text = below.get("description", "." if {"$ref", "const"} & set(below) else "")
                if not text.endswith("."):
                    yield f"{path}.{key}"
                yield from lacking(below, f"{path}.{key}")
            for key in ("additionalProperties", "items", "anyOf", "allOf", "then"):
                yield from lacking(node.get(key), path)

    roots = {"": SCHEMA["properties"]["config"], **SCHEMA["$defs"]}
    assert [path for name, root in roots.items() for path in lacking(root, name)] == []
