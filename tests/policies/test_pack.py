"""The pack with the real engine: `pulumi preview --policy-pack policies` on a passing and a failing stack
for each topic.

A case file has the registered resources and the expected violations; any other violation fails the test.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.local.builder import everything
from muster.policies.pack import RULES

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PROGRAM: Final = Path(__file__).parent / "program"
CASES: Final = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted(Path(__file__).parent.glob("cases/*.yaml"))
}


# "    - [mandatory]  gke-private  (gcp:container/cluster:Cluster: ml)", and below it the message.
_HEADING: Final = re.compile(r"\s*- \[\w+\]\s+(\S+)")


@dataclass(frozen=True)
class Verdict:
    code: int
    text: str
    found: dict[str, list[str]]


@dataclass
class Engine:
    """The CLI with a file backend of its own."""

    folder: Path
    environment: dict[str, str]

    def preview(self, side: dict[str, Any], settings: dict[str, Any]) -> Verdict:
        case = self._write("resources.json", [_resource(each) for each in side["resources"]])
        stacks = self.folder / "stacks"
        stacks.mkdir(exist_ok=True)
        file = side.get("file") or {"config": side.get("config", {})}
        (stacks / "Pulumi.case.yaml").write_text(yaml.safe_dump({"config": side.get("config", {})}))
        given = {**settings, "secrets-in-config": {"folder": str(self.folder / "told")}}
        (self.folder / "told").mkdir(exist_ok=True)
        (self.folder / "told" / "Pulumi.case.yaml").write_text(yaml.safe_dump(file))
        command = ["pulumi", "preview", "--stack", "case", "--non-interactive", "--color", "never"]
        command += ["--policy-pack", str(ROOT / "policies")]
        command += ["--policy-pack-config", str(self._write("settings.json", given))]
        command += ["--config-file", str(stacks / "Pulumi.case.yaml")]
        environment = {**self.environment, "POLICY_CASE": str(case)}
        done = subprocess.run(
            command, cwd=PROGRAM, env=environment, capture_output=True, text=True, timeout=6000, check=False
        )
        return Verdict(done.returncode, done.stdout + done.stderr, _found(done.stdout))

    def _write(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path


def _resource(described: dict[str, Any]) -> dict[str, Any]:
    inputs = dict(described.get("inputs", {}))
    if "manifests" in described:
        inputs["manifests"] = {
            "case": json.dumps({f"{i}": each for i, each in enumerate(described["manifests"])})
        }
    return {**described, "inputs": inputs}


def _found(output: str) -> dict[str, list[str]]:
    """Policy -> its messages, from what the engine prints after a preview."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in output.splitlines():
        if heading := _HEADING.match(line):
            current = found.setdefault(heading[1], [])
        elif current is not None and line.strip():
            current.append(line.strip())
    return found


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "state").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{everything.ensure_all().path}:{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{folder}/state",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(folder / "home"),
    }
    subprocess.run(
        ["pulumi", "stack", "init", "case", "--non-interactive"],
        cwd=PROGRAM,
        env=environment,
        check=True,
        timeout=600,
    )
    return Engine(folder, environment)


@pytest.mark.parametrize("topic", CASES)
def test_a_sound_stack_passes(engine: Engine, topic: str) -> None:
    side = CASES[topic]["passing"]
    verdict = engine.preview(side, CASES[topic].get("settings", {}))
    unexpected = {
        policy: said for policy, said in verdict.found.items() if policy not in side.get("ignores", ())
    }
    assert not unexpected, verdict.text
    assert "muster@v" in verdict.text


@pytest.mark.parametrize("topic", CASES)
def test_a_stack_that_breaks_a_policy_gets_its_name_and_a_fix(engine: Engine, topic: str) -> None:
    side = CASES[topic]["failing"]
    verdict = engine.preview(side, CASES[topic].get("settings", {}))
    expected = {policy: [said] if isinstance(said, str) else said for policy, said in side["expects"].items()}
    assert set(verdict.found) - set(side.get("ignores", ())) == set(expected), verdict.text
    for policy, messages in expected.items():
        told = " ".join(verdict.found[policy])
        assert all(message in told for message in messages), f"{policy}: {verdict.text}"
        assert "Fix: " in told
    mandatory = {rule.name for rule in RULES if rule.level.value == "mandatory"} & set(expected)
    assert (verdict.code != 0) == bool(mandatory)
    assert not [secret for secret in side.get("never", ()) if secret in verdict.text]


def test_tags_are_a_warning_in_dev_and_refused_elsewhere(engine: Engine) -> None:
    """policies/dev.json, for stacks whose images nobody has pinned yet."""
    side = CASES["images"]["failing"]
    shipped = json.loads((ROOT / "policies" / "dev.json").read_text())
    assert engine.preview(side, {}).code != 0
    verdict = engine.preview(side, shipped)
    assert verdict.code == 0, verdict.text
    assert "images-by-digest" in verdict.found


def test_every_policy_has_a_case_that_breaks_it() -> None:
    broken = {policy for case in CASES.values() for policy in case["failing"]["expects"]}
    assert broken == {rule.name for rule in RULES}
