"""Exit codes and messages of the command line, without a local cluster."""

import json
from pathlib import Path

import pytest

from muster.cli import main
from muster.local import preflight
from muster.local.builder import bundle
from muster.local.cluster import control, local_cluster, network_policies
from muster.paths import LOCAL_POOLS


@pytest.fixture(autouse=True)
def _no_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "RUN_ROOT", tmp_path / "run")
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("command", ["status", "logs", "kubeconfig", "env"])
def test_a_local_cluster_that_is_not_there_is_exit_code_3(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", command, "--name", "absent"]) == 3
    said = capsys.readouterr()
    assert "muster local up" in said.out + said.err


def test_a_story_is_for_the_named_cluster_that_of_kubeconfig_or_the_default_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("MUSTER_ARTIFACTS", str(tmp_path / "of-elsewhere.json"))
    assert main(["local", "story", "gang", "--name", "absent"]) == 3
    assert "local cluster absent: is not up" in capsys.readouterr().err
    assert main(["local", "story", "gang"]) == 2
    assert str(tmp_path / "of-elsewhere.json") in capsys.readouterr().err
    monkeypatch.delenv("KUBECONFIG")
    assert main(["local", "story", "gang"]) == 3
    assert "local cluster default: is not up" in capsys.readouterr().err


def test_taking_down_what_is_not_there_is_done_already(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down", "--name", "absent"]) == 0
    assert "there is no local cluster absent" in capsys.readouterr().out


def test_a_name_that_is_none_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "status", "--name", "Bad!"]) == 2
    assert "lower-case letters" in capsys.readouterr().err


def test_a_pools_file_that_karpenter_cannot_fill_is_refused_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pools that are shipped for the simulated cloud answer ProvisioningRequests."""
    assert main(["local", "up", "--autoscaler", "karpenter", "--pools", str(LOCAL_POOLS)]) == 2
    assert "pool l4: Karpenter fills only pools" in capsys.readouterr().err
    broken = tmp_path / "pools.yaml"
    broken.write_text("pools: none", encoding="utf-8")
    assert main(["local", "up", "--pools", str(broken)]) == 2
    assert "must be a mapping with a list `pools`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unit", "option", "value"),
    [("karpenter", "autoscaler", "karpenter"), ("kai-shards", "scheduler", "kai")],
)
def test_up_with_another_autoscaler_or_scheduler_than_the_cluster_that_runs_says_what_to_do(
    unit: str, option: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = local_cluster.named("one", index=0)
    cluster.run.mkdir(parents=True)
    local_cluster.Record(0, init_pid=1, init_started=0, boot_id="").write(cluster.record)
    report = control.Report("one", control.State.HEALTHY, units={unit: {"pid": 7}})
    monkeypatch.setattr(control, "is_alive", lambda _: True)
    monkeypatch.setattr(control, "examine", lambda *_: report)
    assert main(["local", "up", "--name", "one"]) == 3
    assert f"is up with {option} {value}" in capsys.readouterr().err
    assert main(["local", "up", "--name", "one", f"--{option}", value]) == 0


def test_kai_and_karpenter_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "up", "--scheduler", "kai", "--autoscaler", "karpenter"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_a_story_of_another_stack_is_refused_before_anything_is_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["local", "demo", "--scheduler", "kai", "--story", "priority"]) == 2
    said = capsys.readouterr().err
    assert "story priority is not for stack local-kai" in said
    assert "choose one of kai, priorities, reclaim" in said


def test_status_names_the_origin_of_every_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = {"how": "downloaded", "version": "v1.34.4", "sha256": "0f3a" * 16, "checked": "a checksum"}
    report = control.Report("one", control.State.HEALTHY, programs={"kubelet": origin})
    monkeypatch.setattr(control, "examine", lambda *_: report)
    assert main(["local", "status", "--name", "one"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "program kubelet" in line)
    assert line.endswith("v1.34.4 downloaded (sha256 0f3a0f3a0f3a, a checksum)")
    assert main(["local", "status", "--name", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"] == {"kubelet": origin}


def test_status_prints_what_the_machine_lacks_and_calls_the_cluster_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = network_policies.notice("the kernel has no queue")
    report = control.Report("one", control.State.HEALTHY, notes=[note])
    monkeypatch.setattr(control, "examine", lambda *_: report)
    assert main(["local", "status", "--name", "one"]) == 0
    assert "NetworkPolicies are stored and not enforced on this machine" in capsys.readouterr().out
    assert main(["local", "status", "--name", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]


def test_doctor_notes_what_the_cluster_would_do_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "check", lambda *, may_install: None)
    monkeypatch.setattr(network_policies, "obstacle", lambda: "the kernel has no queue")
    assert main(["local", "doctor"]) == 0
    assert "the kernel has no queue" in capsys.readouterr().out


def test_the_origins_are_those_that_up_recorded(tmp_path: Path) -> None:
    cluster = local_cluster.LocalCluster("one", 0, run=tmp_path, state=tmp_path)
    assert control.origins(cluster) == {}
    cluster.artifacts.write_text(json.dumps({"origins": {"etcd": {"how": "built"}}}))
    assert control.origins(cluster) == {"etcd": {"how": "built"}}


def test_a_broken_bundle_is_a_failure_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bundle").write_bytes(b"no bundle")
    assert main(["local", "bundle", "import", str(tmp_path / "bundle")]) == 3
    assert "is not a whole bundle" in capsys.readouterr().err


def test_a_bundle_of_other_pins_is_unusable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle.write(tmp_path / "bundle", [], pins="others")
    assert main(["local", "bundle", "import", str(tmp_path / "bundle")]) == 2
    assert "other versions of the programs" in capsys.readouterr().err
