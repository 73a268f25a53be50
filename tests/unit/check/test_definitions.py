"""Fields and kinds are judged as the API server judges them, and YAML is read as kubectl reads it."""

import copy
from typing import Any

import pytest
import yaml

from muster.check import manifests
from muster.model.definitions import FILE
from muster.model.names import QUEUE_LABEL
from tests.definitions import definitions
from tests.unit.check.stacks import fixed, job, judged, pod, ray_job, refusals, warnings

Json = dict[str, Any]


def changed(body: Json, *path: str | int, value: Any) -> Json:
    found = copy.deepcopy(body)
    at: Any = found
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return found


CLUSTER = ("spec", "rayClusterSpec")
GROUP = (*CLUSTER, "workerGroupSpecs", 0)
JOB = ray_job(pod(1))
WRONG: dict[str, tuple[Json, str]] = {
    "a field that is like another": (
        changed(JOB, *CLUSTER, "workerGroupSpec", value=[]),
        "spec.rayClusterSpec.workerGroupSpec is no field of it; write workerGroupSpecs",
    ),
    "a field of nothing": (
        changed(JOB, "spec", "colour", value=8),
        "spec.colour is no field of it; remove it",
    ),
    "text for a number": (
        changed(JOB, *GROUP, "replicas", value="$NODES"),
        "workerGroupSpecs[0].replicas is '$NODES', and has to be a whole number",
    ),
    "no amount": (
        changed(JOB, *GROUP, "template", "spec", "containers", 0, "resources", "limits", "cpu", value="many"),
        "limits.cpu is 'many', and has to be an amount",
    ),
    "a number with a point, which Ray's definitions do not take": (
        changed(JOB, *GROUP, "template", "spec", "containers", 0, "resources", "limits", "cpu", value=1.5),
        "put it in quotes",
    ),
    "nothing where a head is": (
        changed(JOB, *CLUSTER, "headGroupSpec", value=None),
        "spec.rayClusterSpec.headGroupSpec is missing; write it",
    ),
    "no head": (
        changed(JOB, *CLUSTER, value={"workerGroupSpecs": []}),
        "spec.rayClusterSpec.headGroupSpec is missing; write it",
    ),
    "a number for a label": (
        changed(JOB, "metadata", "labels", value={"run": 7}),
        "metadata.labels[run] is 7, and has to be text; put it in quotes",
    ),
    "a field of a Job": (changed(job(pod(1)), "spec", "parallelsim", value=2), "write parallelism"),
    "a variable that is a number": (
        job(changed(pod(1), "spec", "containers", 0, "env", value=[{"name": "A", "value": 1}])),
        "env[0].value is 1, and has to be text",
    ),
    "an empty cluster": ({**JOB, "kind": "RayCluster", "spec": {}}, "spec.headGroupSpec is missing"),
    "a kind of other case": ({**JOB, "kind": "Rayjob"}, "write kind: RayJob"),
    "two of a kind": ({**JOB, "kind": "RayJobs"}, "write kind: RayJob"),
    "a version that is not served": ({**JOB, "apiVersion": "ray.io/v1beta1"}, "write apiVersion: ray.io/v1"),
    "an old version": (
        {"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {}},
        "write apiVersion: batch/v1",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_the_definitions_refuse_is_named_with_what_to_write(what: str) -> None:
    body, told = WRONG[what]
    found = judged(body)
    assert not found.answer.is_admitted
    assert told in refusals(found)
    assert "CEL" not in refusals(found)
    assert "overload" not in refusals(found)


@pytest.mark.parametrize("what", ["a kind of other case", "an old version"])
def test_fix_writes_a_kind_that_can_mean_one_thing(what: str) -> None:
    written = fixed(WRONG[what][0])
    assert f"{written['apiVersion']} {written['kind']}" in ("ray.io/v1 RayJob", "batch/v1 CronJob")


@pytest.mark.parametrize(
    "path",
    [
        ("metadata", "annotations"),
        (*CLUSTER, "headGroupSpec", "rayStartParams"),
        (*GROUP, "template", "metadata"),
        (*GROUP, "template", "spec", "nodeSelector"),
    ],
)
def test_a_field_without_a_value_is_none(path: tuple[str | int, ...]) -> None:
    assert judged(changed(JOB, *path, value=None)).answer.is_admitted


def test_a_malformed_object_is_told_what_its_other_templates_lack_too() -> None:
    body = changed(ray_job(pod(1), pod(1)), *GROUP, "replicas", value="many")
    body = changed(
        body, *CLUSTER, "workerGroupSpecs", 1, "template", "spec", "schedulerName", value="volcano"
    )
    assert "workerGroupSpecs[0].replicas" in refusals(judged(body))
    assert "workerGroupSpecs of group-1: set schedulerName" in refusals(judged(body))


def test_the_definitions_are_those_of_the_pinned_versions() -> None:
    assert FILE.read_text() == definitions(), "run python -m tests.definitions"


@pytest.mark.parametrize(
    ("image", "is_warned"),
    [
        ("RAY_IMAGE", True),
        ("rayproject/Ray:2.54.1", True),
        ("ray: 2", True),
        ("rayproject/ray:2.54.1", False),
        ("Registry.Example:5000/a/b_c@sha256:" + "a" * 64, False),
        ("localhost/x", False),
        ("[2001:db8::1]:5000/x", False),
    ],
)
def test_an_image_that_no_node_can_pull_is_warned_of(image: str, is_warned: bool) -> None:
    body = changed(JOB, *GROUP, "template", "spec", "containers", 0, "image", value=image)
    assert (f"image {image} is no reference to an image" in warnings(judged(body))) is is_warned


# What kubectl 1.32 printed of each (`kubectl label --local -o json`), on 2026-11-27.
READ: dict[str, Any] = {
    "12:30:00": "12:30:00",
    "12:30": "12:30",
    "2026-11-27": "2026-11-27",
    "2026-11-27 10:00:00": "2026-11-27 10:00:00",
    "1e3": 1000,
    "08": 8,
    "0755": 493,
    "0o17": 15,
    "1_000": 1000,
    "1.0": 1,
    "1.10": 1.1,
    "y": True,
    "NO": False,
    '"NO"': "NO",
    "nO": "nO",
    "~": None,
    "1.10.2": "1.10.2",
    "-": "-",
}


@pytest.mark.parametrize("text", READ)
def test_a_value_is_what_kubectl_reads(text: str) -> None:
    (body,) = manifests.read(f"{{apiVersion: v1, kind: ConfigMap, data: {{a: {text}}}}}", "x.yaml")
    assert body["data"] == {"a": READ[text]}
    assert type(body["data"]["a"]) is type(READ[text])


def test_a_key_that_is_no_text_becomes_what_json_has() -> None:
    (body,) = manifests.read("{apiVersion: v1, kind: ConfigMap, data: {yes: a, 2: b}}", "x.yaml")
    assert body["data"] == {"true": "a", "2": "b"}


@pytest.mark.parametrize("text", ["12:30:00", "1e3", "08", "y", "NO", "2026-11-27", "0x1F", "1_000", "plain"])
def test_text_stays_text_for_both_readers(text: str) -> None:
    written = manifests.dump_all([{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": text}}])
    (body,) = manifests.read(written, "x.yaml")
    assert body["data"] == {"a": text}
    assert yaml.safe_load(written)["data"] == {"a": text}


def test_a_job_without_labels_has_those_of_its_pods() -> None:
    template = {**pod(), "metadata": {"labels": {QUEUE_LABEL: "theirs"}}}
    assert "queue theirs does not belong to this namespace" in refusals(judged(job(template)))
    named = job(template)
    named["metadata"]["labels"] = {QUEUE_LABEL: "default"}
    assert "queue theirs" not in refusals(judged(named))


def test_a_list_of_a_kind_has_its_items() -> None:
    item = {key: each for key, each in job(pod()).items() if key not in ("apiVersion", "kind")}
    listed = {"apiVersion": "batch/v1", "kind": "JobList", "items": [item, job(pod())]}
    assert manifests.read(yaml.safe_dump(listed), "jobs.yaml") == (job(pod()), job(pod()))


def test_no_expression_is_in_an_answer() -> None:
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"}}
    said = refusals(judged({**body, "spec": {"pytorchReplicaSpecs": []}}, work=["pytorchjob"]))
    assert "spec.pytorchReplicaSpecs is a list, and has to be a mapping" in said
    assert "orValue" not in said


def test_a_field_in_another_place_is_told_its_own() -> None:
    template = pod()
    template["spec"]["imagePullPolicy"] = "Always"
    template["spec"]["containers"][0]["nodeSelector"] = {"a": "b"}
    template["restartPolicy"] = "Never"
    said = refusals(judged({**job(template), "parallelism": 2}))
    assert (
        "spec.template.spec.imagePullPolicy is no field of it; write it in spec.template.spec.containers"
        in said
    )
    assert (
        "spec.template.spec.containers[0].nodeSelector is no field of it; write it in spec.template.spec"
        in said
    )
    assert "spec.template.restartPolicy is no field of it; write it in spec.template.spec" in said
    assert "parallelism is no field of it; write it in spec" in said


@pytest.mark.parametrize(
    "kind", ["JobSet jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet leaderworkerset.x-k8s.io/v1"]
)
def test_an_object_without_a_spec_is_answered(kind: str) -> None:
    name, version = kind.split()
    body = {"apiVersion": version, "kind": name, "metadata": {"name": "train"}}
    assert not judged(body, work=["jobset", "lws"]).answer.is_admitted


def test_values_of_json_may_follow_each_other() -> None:
    body = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}}'
    found = manifests.read(f"{body % 'a'}\n{body % 'b'}", "x.json")
    assert [each["metadata"]["name"] for each in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "is_refused"),
    [("$HF_TOKEN", True), ("aGY", True), ("aGZf", False), ("aGZf\n", False), ("", False)],
)
def test_the_data_of_a_secret_is_base64(data: str, is_refused: bool) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}, "data": {"token": data}}
    message = refusals(judged(body))
    assert ("data.token is no base64; write it as text in stringData" in message) is is_refused, message
    assert "HF_TOKEN" not in message


@pytest.mark.parametrize("account", ["$KSA_NAME", "<GCSFUSE_KSA>", "My-account"])
def test_an_account_of_a_name_that_nothing_can_have_is_refused_by_the_api_server(account: str) -> None:
    message = refusals(judged(job(pod(1, serviceAccountName=account))))
    assert f"spec.template.spec.serviceAccountName is {account!r}; write one of a-z, 0-9, - and ." in message
    of_ray = judged(ray_job(pod(1, serviceAccountName=account)))
    assert of_ray.answer.is_admitted
    assert f"serviceAccountName {account}, which nothing can be called: no pod starts" in warnings(of_ray)
    assert "ask the platform team" not in warnings(of_ray)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 23 1-31 jan-DEC mon,fri", ""),
        ("*/15 * ? * 0", ""),
        ("@every 1h30m", ""),
        ("@noon", "write @hourly"),
        ("TZ=UTC 0 3 * * *", "write the zone in spec.timeZone"),
        ("0 3 * *", "4 fields"),
        ("0 24 * * *", "'24' for hours"),
        ("0 3 0 * *", "'0' for days of the month"),
        ("*/0 * * * *", "'*/0' for minutes"),
        ("0 3 * * fri-mon", "or sun to sat"),
        ("0 3 * * mon-x", "'mon-x' for days of the week"),
    ],
)
def test_a_schedule_that_no_cron_job_can_have_is_refused(schedule: str, words: str) -> None:
    job = {"template": changed(pod(), "spec", "restartPolicy", value="Never")}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}}
    found = refusals(judged({**body, "spec": {"schedule": schedule, "jobTemplate": {"spec": job}}}))
    assert (words in found) if words else ("spec.schedule" not in found), found
