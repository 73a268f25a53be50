"""`muster check`: what admission answers to a job, what the job asks for, and where that fits."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from muster.model.names import HELD_TAINT_KEY, POOL_LABEL, SYSTEM_POOL
from muster.paths import stack_file
from tests.unit.check.stacks import placeholders_of_the_local_stack

LOCAL = str(stack_file("local", start=Path(__file__).parent))
PROD = str(stack_file("gke-prod", start=Path(__file__).parent))
PUBLISHED = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: train}
spec:
  entrypoint: python train.py
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - {name: head, image: "rayproject/ray:2.55.0", resources: {limits: {cpu: 1, memory: 1Gi}}}
    workerGroupSpecs:
    - groupName: gpu
      replicas: 2
      minReplicas: 1
      maxReplicas: 2
      rayStartParams: {}
      template:
        spec:
          containers:
          - {name: worker, image: "rayproject/ray:2.55.0", resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(PUBLISHED)
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["check", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def checked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--json")
    (found,) = json.loads(out)["objects"]
    assert found["admitted"] is (code == 0)
    return code, found


def test_a_published_job_is_admitted_with_what_admission_fills_in(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 0
    assert "RayJob train: would be admitted in the namespace of team team-a" in out
    assert "filled in metadata.labels[kueue.x-k8s.io/queue-name]: default" in out
    assert "filled in spec.rayClusterSpec.authOptions.mode: token" in out
    assert "filled in spec.rayClusterSpec.rayVersion: 2.55.0" in out
    assert "filled in spec.shutdownAfterJobFinishes: true" in out
    assert "workerGroupSpecs[0].template.spec.tolerations" in out
    assert "asks for 2 GPUs and cpu 1700m and memory 1480Mi in all, from queue default\n" in out


def test_every_pool_says_whether_it_fits(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = checked(capsys, job, "--stack", PROD, "--team", "vision")
    head, gpu, _ = found["groups"]
    pools = {each["pool"]: each for each in gpu["pools"]}
    # What the worker does not request comes from the LimitRange of the namespace.
    assert (gpu["pods"], gpu["each"]) == (2, {"nvidia.com/gpu": "1", "cpu": "100m", "memory": "128Mi"})
    assert (pools["l4"]["fits"], pools["l4"]["nodes"]) == (True, 2)
    assert pools["cpu"]["reason"] == "no node of it has a GPU"
    assert pools["h200"]["reason"] == "queue default has no quota of it"
    assert {each["pool"]: each["fits"] for each in head["pools"]}["l4"] is False


def test_more_than_the_quota_is_refused(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(
        PUBLISHED.replace("replicas: 2", "replicas: 9").replace("maxReplicas: 2", "maxReplicas: 9")
    )
    code, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 1
    assert "9 GPUs" in found["refused"][0]["message"] or "9 nodes" in found["refused"][0]["message"]
    assert not any(each["fits"] for each in found["groups"][1]["pools"])


def test_a_head_on_the_system_pool_is_refused(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = yaml.safe_load(PUBLISHED)
    head = body["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    head["nodeSelector"] = {POOL_LABEL: SYSTEM_POOL}
    job.write_text(yaml.safe_dump(body))
    code, found = checked(capsys, job, "--stack", PROD, "--team", "vision")
    assert code == 1
    assert any(
        "no pool system is for work of teams; write one of cpu" in each["message"]
        for each in found["refused"]
    )


def test_an_old_ray_is_warned_of_where_the_stack_prefers_and_refused_where_it_requires(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(PUBLISHED.replace("2.55.0", "2.9.0"))
    code, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert (code, found["warned"][0]["by"]) == (0, "muster-ray-advice")
    code, found = checked(capsys, job, "--stack", PROD, "--team", "vision")
    (refusal,) = found["refused"]
    assert (code, refusal["by"]) == (1, "muster-ray")
    for line in ('rayVersion: "2.54.0"', "image: rayproject/ray:2.54.0", "authOptions: {mode: token}"):
        assert line in refusal["message"]


@pytest.mark.parametrize(
    ("worker", "tag"),
    [
        ("ray:2.9.0-py310", "2.54.0 (or"),
        ("ray:2.9.0-py310-gpu", "2.54.0-gpu (or"),
        ("ray:2.9.0-cu118", "2.54.0-gpu (or"),
        ("ray-ml:2.9.0-py310", "2.54.0-gpu (or"),
        ("ray-ml:2.9.0-py310-cpu", "2.54.0 (or"),
    ],
)
def test_a_newer_ray_is_one_with_gpus_where_the_older_one_was(
    job: Path, worker: str, tag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = yaml.safe_load(PUBLISHED.replace("2.55.0", "2.9.0"))
    (group,) = body["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    group["template"]["spec"]["containers"][0]["image"] = f"rayproject/{worker}"
    job.write_text(yaml.safe_dump(body))
    _, found = checked(capsys, job, "--stack", PROD, "--team", "vision")
    assert f"image: rayproject/ray:{tag}" in found["refused"][0]["message"]


def test_everything_that_is_wrong_is_named_at_once(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = yaml.safe_load(PUBLISHED)
    body["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "theirs"}, "namespace": "theirs"}
    body["spec"] |= {"submissionMode": "InteractiveMode", "shutdownAfterJobFinishes": False}
    job.write_text(yaml.safe_dump(body))
    code, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 1
    assert [each["by"] for each in found["refused"]] == [
        "the namespace",
        "muster-work",
        "muster-work",
        "muster-finished",
    ]


def test_a_fixed_job_needs_nothing_more(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, job, "--stack", PROD, "--team", "vision", "--fix")
    assert code == 0
    assert "RayJob train: would be admitted" in err
    assert yaml.safe_load(out)["metadata"]["namespace"] == "vision"
    job.write_text(out)
    code, found = checked(capsys, job, "--stack", PROD, "--team", "vision")
    assert (code, found["filled"], found["warned"]) == (0, [], [])


def test_the_jobs_of_a_cron_job_are_fixed_too(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    nightly = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    job.write_text(yaml.safe_dump(nightly))
    assert run(capsys, job, "--stack", LOCAL, "--team", "team-a")[0] == 1
    code, out, _ = run(capsys, job, "--stack", LOCAL, "--team", "team-a", "--fix")
    fixed = yaml.safe_load(out)["spec"]["jobTemplate"]
    assert code == 0
    assert fixed["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    assert fixed["spec"]["template"]["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_what_members_may_not_create_is_named(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")
    code, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 1
    message = (
        "members of a team may not create deployments; ask the platform team for "
        "`muster:work: [ray, job, deployment]`, or write a RayService; they may create: rayjobs"
    )
    assert message in str(found["refused"])


def test_a_job_of_another_program_is_not_counted(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "ray"}}
    job.write_text(yaml.safe_dump(body | {"spec": {"queue": "default", "tasks": []}}))
    code, out, _ = run(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 1
    assert "may not create jobs of batch.volcano.sh; write a Job of batch/v1" in out
    assert "asks for" not in out


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("networking.k8s.io/v1 Ingress", "ingresses"),
        ("scheduling.k8s.io/v1 PriorityClass", "priorityclasses"),
        ("kueue.x-k8s.io/v1beta2 Topology", "topologies; ask the platform team for one"),
        ("kai.scheduler/v1alpha1 Topology", "topologies; ask the platform team for one"),
        ("scheduling.volcano.sh/v1beta1 Queue", "queues; label the job with a queue of the team"),
        ("gateway.networking.k8s.io/v1 Gateway", "gateways"),
    ],
)
def test_a_job_is_not_advised_in_place_of_what_has_no_pods(
    job: Path, kind: str, resource: str, capsys: pytest.CaptureFixture[str]
) -> None:
    version, _, kind = kind.partition(" ")
    job.write_text(yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}))
    _, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert f"members of a team may not create {resource}; they may create" in str(found["refused"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no object in it"),
        ("a: 1\nb: [", "is not YAML in line 2"),
        ("metadata:\n  name: {{.Name}}\n", "Fix: fill in the template"),
        ("a: 1\n{{- if .Values.x }}\n", "Fix: fill in the template"),
        ("a: &a [*a]", "is not YAML in line 1, column 4: an alias contains itself"),
        ("- " * 3_000, "nests too deeply"),
        ("[1]", "a document is no Kubernetes object"),
        ("{kind: RayJob}", "a document is no Kubernetes object"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: 1}", "metadata of a ConfigMap is no mapping"),
    ],
)
def test_an_unusable_file_is_named(
    job: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(text)
    code, _, err = run(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert code == 2
    assert words in err


def test_a_missing_file_team_or_stack_is_unusable(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("no.yaml", "--stack", LOCAL, "--team", "team-a"),
        (job, "--stack", "no.yaml", "--team", "team-a"),
        (job, "--stack", LOCAL, "--team", "nosuch"),
        (job, "--stack", LOCAL, "--team", "team-a", "--fix", "--json"),
    ):
        assert run(capsys, *arguments)[0] == 2
    no_file = run(capsys, "no.yaml", "--stack", LOCAL, "--team", "team-a")[2]
    assert "no.yaml: cannot be read: No such file or directory.\nFix: name a file with a job" in no_file
    assert "Errno" not in no_file
    assert "did you mean 'team-a'?" in run(capsys, job, "--stack", LOCAL, "--team", "taem-a")[2]


@pytest.mark.parametrize(
    ("kind", "specs"),
    [
        (
            "ray.io/v1 RayJob",
            [
                "x",
                {"rayClusterSpec": 1},
                {"rayClusterSpec": {"workerGroupSpecs": [1], "headGroupSpec": {"template": []}}},
                {
                    "rayClusterSpec": {
                        "headGroupSpec": {"template": {"spec": {"containers": [{"resources": 1}]}}}
                    }
                },
            ],
        ),
        ("batch/v1 Job", [{"template": {"metadata": [], "spec": {"containers": [{"name": "c"}]}}}]),
        (
            "batch/v1 CronJob",
            [
                None,
                {"schedule": "0 3 * * *"},
                {"jobTemplate": None},
                {"jobTemplate": {"metadata": 3, "spec": {}}},
                {"jobTemplate": {"metadata": {"labels": 3}, "spec": {"template": 3}}},
            ],
        ),
    ],
)
def test_a_malformed_job_is_refused_without_a_traceback(
    job: Path, kind: str, specs: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    version, _, name = kind.partition(" ")
    for spec in specs:
        body = {"apiVersion": version, "kind": name, "metadata": {"name": "x"}, "spec": spec}
        job.write_text(yaml.safe_dump(body))
        for options in ((), ("--fix",)):
            code, _, err = run(capsys, job, "--stack", LOCAL, "--team", "team-a", *options)
            assert code == 1, (spec, options)
            assert "Traceback" not in err


def test_a_stack_that_only_warns_of_tenancy_admits_with_warnings(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lenient = tmp_path / "Pulumi.lenient.yaml"
    lenient.write_text(Path(LOCAL).read_text().replace("config:\n", "config:\n  muster:tenancy: warn\n", 1))
    body = yaml.safe_load(PUBLISHED)
    body["spec"]["rayClusterSpec"]["headGroupSpec"]["serviceType"] = "NodePort"
    job.write_text(yaml.safe_dump(body))
    code, found = checked(capsys, job, "--stack", LOCAL, "--team", "team-a")
    assert (code, [each["by"] for each in found["refused"]]) == (1, ["muster-ray-services"])
    code, found = checked(capsys, job, "--stack", lenient, "--team", "team-a")
    assert (code, [each["by"] for each in found["warned"]]) == (0, ["muster-ray-services"])


def test_work_of_a_kai_stack_gets_its_gate(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kai = stack_file("kai-prod", start=Path(__file__).parent)
    body = yaml.safe_load(PUBLISHED)
    body["spec"]["submissionMode"] = "HTTPMode"
    job.write_text(yaml.safe_dump(body))
    _, found = checked(capsys, job, "--stack", kai, "--team", "training")
    assert not any("submissionMode" in each["message"] for each in found["refused"])
    assert any("schedulingGates" in each["path"] for each in found["filled"])


_SEVERAL = """\
config:
  muster:cluster: {provider: existing, name: own, context: own}
  muster:scheduler: %s
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 10}
    l4: {machine: g2-standard-8, maxNodes: 8}
  muster:departments:
    company:
      teams:
        open: {quota: {l4: unlimited}, namespaces: [open, open-ci]}
        team-a: {quota: {l4: 4}}
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.several.yaml"
    file.write_text(_SEVERAL % "kueue")
    return file


def in_namespace(job: Path, name: str) -> None:
    body = yaml.safe_load(PUBLISHED)
    body["metadata"]["namespace"] = name
    job.write_text(yaml.safe_dump(body))


def test_each_namespace_of_a_team_takes_its_work(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("open", "open-ci"):
        in_namespace(job, name)
        code, found = checked(capsys, job, "--stack", several, "--team", "open")
        assert (code, found["refused"]) == (0, [])
        code, out, _ = run(capsys, job, "--stack", several, "--team", "open", "--fix")
        assert (code, yaml.safe_load(out)["metadata"]["namespace"]) == (0, name)


def test_a_team_on_the_queue_of_another_is_answered_with_what_that_one_holds(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several.write_text(several.read_text() + "        speech: {queue: team-a}\n")
    answers = [
        run(capsys, job, "--stack", several, "--team", team)[1].replace(f"of team {team}", "")
        for team in ("team-a", "speech")
    ]
    assert "would be admitted" in answers[1]
    assert answers[0] == answers[1]


def test_the_namespace_of_another_team_is_refused_and_not_rewritten(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_namespace(job, "team-a")
    code, found = checked(capsys, job, "--stack", several, "--team", "open")
    (refusal,) = found["refused"]
    assert (code, refusal["by"]) == (1, "the namespace")
    assert "remove it, or write open or open-ci" in refusal["message"]
    code, out, _ = run(capsys, job, "--stack", several, "--team", "open", "--fix")
    assert (code, yaml.safe_load(out)["metadata"]["namespace"]) == (1, "team-a")


def test_namespaces_that_are_not_musters_are_answered_with_what_does_check_there(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adopted = Path(__file__).parents[3] / "examples" / "adopted" / "Pulumi.adopted.yaml"
    code, out, err = run(capsys, job, "--stack", adopted, "--team", "vision")
    assert (code, out) == (2, "")
    assert "namespaces: existing" in err
    assert "--dry-run=server" in err


def test_a_quota_without_a_bound_has_no_figure(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, job, "--stack", several, "--team", "open")
    assert "limit of queue default in pool l4: unlimited\n" in out
    _, found = checked(capsys, job, "--stack", several, "--team", "open")
    assert set(found["queueHolds"]["l4"].values()) == {"unlimited"}
    _, out, _ = run(capsys, job, "--stack", several, "--team", "team-a")
    assert "limit of queue default in pool l4: 4 GPUs and " in out


def test_a_bound_over_all_pools_of_kai_names_them_so(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several.write_text(_SEVERAL.replace("l4: unlimited", "l4: 4") % "kai")
    _, out, _ = run(capsys, job, "--stack", several, "--team", "team-a")
    assert "pool *" not in out
    assert " in all pools together: " in out


EKS = str(stack_file("eks-prod", start=Path(__file__).parent))


def _of_whole_nodes(workers: int, **more: int) -> str:
    job = yaml.safe_load(PUBLISHED)
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    group |= {"replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    limits |= {"nvidia.com/gpu": 8, **more}
    return yaml.safe_dump(job)


@pytest.mark.parametrize(
    ("stack", "more", "workers", "words"),
    [
        (
            PROD,
            {},
            2,
            "takes several nodes, which would talk over their first network card: gpu on pool h100",
        ),
        (PROD, {}, 1, ""),
        (EKS, {}, 2, "the pods request no vpc.amazonaws.com/efa"),
        (EKS, {"vpc.amazonaws.com/efa": 32}, 2, ""),
    ],
)
def test_a_job_of_several_nodes_without_their_fast_network_is_warned_of(
    stack: str, more: dict[str, int], workers: int, words: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(_of_whole_nodes(workers, **more))
    _, found = checked(capsys, job, "--stack", stack, "--team", "vision")
    warned = [each["message"] for each in found["warned"] if each["by"] == "muster-fabric"]
    assert words in " ".join(warned)
    assert bool(warned) is bool(words)
    (gpu,) = [each for each in found["groups"] if each["name"] == "gpu"]
    assert workers in {each["nodes"] for each in gpu["pools"]}, "it fits somewhere"


@pytest.mark.parametrize(
    "way",
    [{"operator": "Exists"}, {"operator": "Equal", "value": "muster-1234-0"}, {"value": "muster-1234-0"}],
)
def test_a_toleration_of_the_nodes_of_a_waiting_gang_is_refused(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: dict[str, str]
) -> None:
    """Where gangs ask by placeholders, one taint keeps the nodes of each."""
    placed = tmp_path / "Pulumi.placed.yaml"
    placed.write_text(placeholders_of_the_local_stack())
    body = yaml.safe_load(PUBLISHED)
    (group,) = body["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    group["template"]["spec"]["tolerations"] = [{"key": HELD_TAINT_KEY, **way}]
    job.write_text(yaml.safe_dump(body))
    _, out, _ = run(capsys, job, "--stack", placed, "--team", "team-a", "--json")
    assert f"remove the toleration of {HELD_TAINT_KEY}" in out


def test_one_gpu_is_written_in_the_singular(
    job: Path, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(PUBLISHED.replace("replicas: 2", "replicas: 1").replace("Replicas: 2", "Replicas: 1"))
    _, out, _ = run(capsys, job, "--stack", several, "--team", "team-a")
    assert "    gpu: 1 pod, 1 GPU and " in out


def test_an_invalid_stack_is_named_as_such_and_nothing_is_judged(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = tmp_path / "Pulumi.bad.yaml"
    stack.write_text(Path(LOCAL).read_text().replace("quota:", "quotas:"))
    code, out, err = run(capsys, job, "--stack", stack, "--team", "team-a")
    assert (code, out) == (2, "")
    first, second, *_ = err.splitlines()
    assert first == f"Error: {stack}: is not a valid stack, so nothing was judged."
    assert "quotas: is not a key that Muster knows here." in second
    assert main(["validate", str(stack)]) == 1
    assert second in capsys.readouterr().out


def test_a_stack_with_values_of_an_example_is_judged_with_a_note(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, job, "--stack", PROD, "--team", "vision")
    assert code == 0
    assert err.startswith(f"{PROD}: is not valid yet: `muster validate` names ")
    assert run(capsys, job, "--stack", PROD, "--team", "vision", "--quiet")[2] == ""
    assert run(capsys, job, "--stack", LOCAL, "--team", "team-a")[2] == ""
