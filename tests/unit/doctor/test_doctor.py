"""The preflight checks find what a first `up` would fail on, each with its fix; no response is not a pass."""

import json
import socket
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from muster.artifacts.oci.registry import Web
from muster.artifacts.resolved import kubernetes_of
from muster.cli import main
from muster.cli.commands import doctor as command
from muster.cloud.clients import GoogleError
from muster.cloud.doctor import cluster_checks, examine, machines, support
from muster.cloud.doctor.examine import Reach, checks
from muster.cloud.doctor.findings import Finding, State, passed, run_checks
from muster.config.edit import template
from muster.kubernetes.client import Client, connect
from muster.kubernetes.kubeconfig import Access, KubeconfigError
from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster, ExistingCluster, GkeCluster, Provider
from muster.model.machines import MACHINES, cloud_machine
from muster.model.pools import Pool
from muster.model.quantities import GIB, Bytes, Millicores
from muster.model.stack import Stack
from tests.unit.cloud.google_world import cloud
from tests.unit.model.model_stacks import new_config, new_stack
from tests.unit.preview.http_world import Asked, Reply, serving

QUICK = Web(timeout=60, tries=1, pause=0.01)
DIGEST = "sha256:" + "ab" * 32


def gke() -> GkeCluster:
    found = new_stack(Provider.GKE).cluster
    assert isinstance(found, GkeCluster)
    return found


def eks() -> EksCluster:
    found = new_stack(Provider.EKS).cluster
    assert isinstance(found, EksCluster)
    return found


def by_state(found: list[Finding]) -> list[tuple[str, State]]:
    return [(each.check, each.state) for each in found]


# ---- Google ------------------------------------------------------------------------

PROJECT = "GET /projects/my-project"
REGION = f"{PROJECT}/regions/us-central1"
SERVICES = "GET /v1/projects/my-project/services:batchGet"


def test_a_project_that_answers_is_well_and_a_refusal_names_the_role() -> None:
    with cloud({PROJECT: (200, {})}) as (_, here):
        assert by_state(list(machines.check_credentials(gke(), here))) == [("credentials", State.OK)]
    with cloud({PROJECT: (403, {"error": {"code": 403, "message": "no"}})}) as (_, here):
        (found,) = machines.check_credentials(gke(), here)
    assert found.state is State.FAILED
    assert "roles/compute.viewer" in found.fix
    with cloud({PROJECT: (401, {"error": {"code": 401, "message": "who"}})}) as (_, here):
        (found,) = machines.check_credentials(gke(), here)
    assert "gcloud auth" in found.fix


def test_disabled_apis_are_listed_with_the_command() -> None:
    states = [
        {"name": f"projects/1/services/{name}", "state": "DISABLED" if "kms" in name else "ENABLED"}
        for name in machines.APIS
    ]
    with cloud({SERVICES: (200, {"services": states})}) as (_, here):
        (found,) = machines.check_apis(gke(), here)
    assert found.fix == "gcloud services enable cloudkms.googleapis.com --project my-project"


@pytest.mark.parametrize(("limit", "expected"), [(0, State.FAILED), (7, State.FAILED), (8, State.OK)])
def test_a_quota_below_the_pools_maximum_is_reported(limit: int, expected: State) -> None:
    here_stack = new_stack(Provider.GKE)
    metric = "PREEMPTIBLE_NVIDIA_L4_GPUS"  # flex-start takes from that one
    quotas = {"quotas": [{"metric": metric, "limit": limit, "usage": 0}]}
    with cloud({REGION: (200, quotas)}) as (_, here):
        (found,) = machines.check_gpu_quota(gke(), here_stack.pools, here)
    assert found.state is expected
    assert metric in found.message


def test_a_quota_that_cannot_be_seen_is_not_taken_for_well() -> None:
    with cloud({REGION: (200, {"quotas": []})}) as (_, here):
        (found,) = machines.check_gpu_quota(gke(), new_stack(Provider.GKE).pools, here)
    assert found.state is State.UNKNOWN


def _zones(*with_gpu: str, machine: str = "g2-standard-8") -> dict[str, Any]:
    every = [f"us-central1-{letter}" for letter in "abf"]
    items = {f"zones/{zone}": {"machineTypes": [{"name": machine}]} for zone in with_gpu}
    urls = [f"https://compute.example/zones/{zone}" for zone in every]
    return {REGION: (200, {"zones": urls}), f"{PROJECT}/aggregated/machineTypes": (200, {"items": items})}


def test_zones_that_google_would_choose_and_that_have_no_such_gpu_are_named() -> None:
    newer = "g9-standard-8"  # our table of zones does not know it
    pools = tuple(
        replace(each, machine=replace(each.machine, name=newer))
        for each in new_stack(Provider.GKE).pools
        if each.is_gpu
    )
    chosen_by_google = replace(gke(), zones=())
    with cloud(_zones("us-central1-a", "us-central1-b", machine=newer)) as (_, here):
        (found,) = machines.check_zones(chosen_by_google, pools, here)
    assert found.state is State.FAILED
    assert "us-central1-f have no g9-standard-8" in found.message
    assert "zones: [us-central1-a, us-central1-b]" in found.fix
    with cloud(_zones("us-central1-a", "us-central1-b", "us-central1-f", machine=newer)) as (_, here):
        (found,) = machines.check_zones(chosen_by_google, pools, here)
    assert found.state is State.OK


def test_zones_that_the_stack_names_are_compared_with_those_that_sell_the_machine() -> None:
    pools = tuple(
        replace(each, zones=("us-central1-f",)) for each in new_stack(Provider.GKE).pools if each.is_gpu
    )
    with cloud(_zones("us-central1-a")) as (_, here):
        (found,) = machines.check_zones(gke(), pools, here)
    assert "not sold in us-central1-f" in found.message
    with cloud(_zones()) as (_, here):
        (found,) = machines.check_zones(gke(), pools, here)
    assert "no zone of the region" in found.message


# ---- AWS -----------------------------------------------------------------------------


def client(name: str) -> tuple[Any, Stubber]:
    made = boto3.client(name, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    stub = Stubber(made)
    stub.activate()
    return made, stub


def test_zones_that_do_not_sell_a_pool_s_machine_are_named_with_those_that_do() -> None:
    ec2, stub = client("ec2")
    pools = tuple(each for each in new_stack(Provider.EKS).pools if each.is_gpu)
    offer = {"InstanceType": "g6.2xlarge", "LocationType": "availability-zone", "Location": "us-east-1a"}
    stub.add_response("describe_instance_type_offerings", {"InstanceTypeOfferings": [offer]})
    (found,) = examine.check_zones(eks(), pools, ec2)
    assert found.state is State.FAILED
    assert "g6.2xlarge is not sold in us-east-1b" in found.message
    assert "zones: [us-east-1a]" in found.fix


@pytest.mark.parametrize(
    ("machine", "capacity", "expected"),
    [
        ("g6.2xlarge", Capacity.ON_DEMAND, {"L-DB2E81BA": 16}),
        ("gr6.4xlarge", Capacity.SPOT, {"L-3819A6DF": 32}),
        ("p5.48xlarge", Capacity.SPOT, {"L-C4BD4855": 384}),
        ("p6-b300.48xlarge", Capacity.RESERVATION, {"L-417A185B": 384}),
        ("p6-b300.48xlarge", Capacity.CAPACITY_BLOCK, {}),
        ("trn2.48xlarge", Capacity.QUEUED, {"L-2C3B7624": 384}),
        ("inf2.8xlarge", Capacity.SPOT, {"L-B5D1601B": 64}),
        ("m8g.large", Capacity.ON_DEMAND, {}),
    ],
)
def test_each_family_has_its_quota_of_vcpus(
    machine: str, capacity: Capacity, expected: dict[str, int]
) -> None:
    known = MACHINES[machine]
    pool = Pool(name="p", machine=known, gpus_per_node=sum(known.gpu_counts), capacity=capacity, max_nodes=2)
    assert examine.wanted_vcpus((pool,)) == expected


def _described(name: str, vcpus: int, gib: int, **more: Any) -> dict[str, Any]:
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": gib * 1024},
        **more,
    }


def test_figures_that_differ_from_those_of_ec2_are_named() -> None:
    ec2, stub = client("ec2")
    cpu = new_stack(Provider.EKS).pools[0]
    own = cloud_machine(
        "g9.xlarge",
        Provider.EKS,
        cpu=Millicores(8000),
        memory=Bytes(31 * GIB),
        gpus=0,
        gpu=None,
        local_disks=0,
        efa=0,
        architecture="amd64",
    )
    wrong = replace(own, gpu_counts=(2,))
    gone = replace(own, name="g10.xlarge")
    trainium = MACHINES["trn1.2xlarge"]
    pools = [replace(cpu, machine=each) for each in (wrong, gone, trainium)]
    stub.add_response(
        "describe_instance_types",
        {
            "InstanceTypes": [
                _described("trn1.2xlarge", 8, 32, NeuronInfo={"NeuronDevices": [{"Count": 1}]}),
                _described(
                    "g9.xlarge",
                    4,
                    16,
                    GpuInfo={"Gpus": [{"Count": 1}]},
                    ProcessorInfo={"SupportedArchitectures": ["arm64"]},
                ),
            ]
        },
    )
    missing, other, same = machines.check_ec2(pools, ec2)
    assert (missing.state, missing.message) == (State.FAILED, "the cloud has no machine g10.xlarge")
    assert other.message == (
        "g9.xlarge: 8 vCPUs here, 4 at the cloud, 31744 MiB of memory here, 16384 at the cloud, "
        "2 accelerators here, 1 at the cloud, amd64 here, arm64 at the cloud"
    )
    assert "`node`" in other.fix
    assert same.state is State.OK


def test_figures_are_compared_with_googles_too() -> None:
    pools = tuple(each for each in new_stack(Provider.GKE).pools if each.is_gpu)
    listed = {
        "guestCpus": 8,
        "memoryMb": 32768,
        "accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}],
    }
    for changed, expected in ((listed, State.OK), ({**listed, "guestCpus": 9}, State.FAILED)):
        items = {"zones/us-central1-a": {"machineTypes": [changed]}}
        with cloud({f"{PROJECT}/aggregated/machineTypes": (200, {"items": items})}) as (_, here):
            (found,) = machines.check_google(gke(), pools, here)
        assert found.state is expected


def test_the_aws_identity_is_shown() -> None:
    sts, stub = client("sts")
    stub.add_response("get_caller_identity", {"Account": "1", "Arn": "arn:aws:iam::1:user/me", "UserId": "u"})
    (found,) = examine.check_credentials(eks(), sts)
    assert found == passed("credentials", "arn:aws:iam::1:user/me in account 1, region us-east-1")
    stub.add_client_error("get_caller_identity", "ExpiredToken", "expired")
    (found,) = examine.check_credentials(eks(), sts)
    assert (found.state, found.fix) == (State.FAILED, "run `aws sso login`, or give the job a role")


@pytest.mark.parametrize(("value", "expected"), [(0.0, State.FAILED), (64.0, State.OK)])
def test_vcpus_of_gpu_instances_are_what_aws_grants(value: float, expected: State) -> None:
    quotas, stub = client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
    stub.add_response("get_service_quota", {"Quota": {"QuotaName": "G and VT", "Value": value}}, asked)
    # 8 nodes of g6.2xlarge, 8 vCPU each.
    (found,) = examine.check_gpu_quota(eks(), new_stack(Provider.EKS).pools, quotas)
    assert found.state is expected
    if expected is State.FAILED:
        assert "--quota-code L-DB2E81BA --desired-value 64 --region us-east-1" in found.fix


# ---- state and secrets ---------------------------------------------------------------


def where(tmp_path: Path, *, backend: str, text: str = "config: {}\n") -> examine.PulumiState:
    file = tmp_path / "Pulumi.here.yaml"
    file.write_text(text)
    return examine.PulumiState(stack="here", file=file, backend=backend)


@pytest.mark.parametrize(
    ("backend", "cluster", "expected"),
    [
        ("", gke(), State.FAILED),
        ("file:///x", gke(), State.FAILED),
        ("file:///x", ExistingCluster(name="x"), State.OK),
        ("gs://b", gke(), State.OK),
    ],
)
def test_state_of_a_cloud_does_not_lie_on_one_machine(
    tmp_path: Path, backend: str, cluster: GkeCluster | ExistingCluster, expected: State
) -> None:
    (found,) = examine.check_backend(where(tmp_path, backend=backend), cluster)
    assert found.state is expected


def test_the_backend_is_what_pulumi_is_logged_in_to(tmp_path: Path) -> None:
    assert examine.read_backend_url({"PULUMI_BACKEND_URL": "gs://b"}) == "gs://b"
    assert examine.read_backend_url({"PULUMI_HOME": str(tmp_path)}) == ""
    (tmp_path / "credentials.json").write_text('{"current": "s3://c"}')
    assert examine.read_backend_url({"PULUMI_HOME": str(tmp_path)}) == "s3://c"


def test_a_lock_in_files_names_its_process_and_whether_that_has_ended(tmp_path: Path) -> None:
    here = where(tmp_path, backend=f"file://{tmp_path}")
    assert by_state(list(examine.check_lock(here))) == [("lock", State.OK)]
    folder = tmp_path / ".pulumi/locks/organization/muster/here"
    folder.mkdir(parents=True)
    content = {"username": "ada", "hostname": socket.gethostname(), "timestamp": "2026-11-23T09:37:35.7Z"}
    # No process has this number: pid_max is at most 2^22.
    (folder / "1.json").write_text(json.dumps(content | {"pid": 2**22 + 1}))
    (found,) = examine.check_lock(here)
    assert found.state is State.FAILED
    assert found.fix.endswith("pulumi cancel --stack here")
    assert f"process {2**22 + 1} of ada on" in found.message
    assert "since 2026-11-23 09:37:35 UTC, which has ended without removing it" in found.message


def test_a_lock_in_a_bucket_is_seen(tmp_path: Path) -> None:
    held = {"items": [{"name": ".pulumi/locks/organization/muster/here/1.json"}]}
    with cloud({"GET /b/bucket/o": (200, held)}) as (_, google_here):
        (found,) = examine.check_lock(where(tmp_path, backend="gs://bucket"), google=google_here)
    assert found.state is State.FAILED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("secretsprovider: gcpkms://k\n", State.OK),
        ("encryptionsalt: v1:x\n", State.FAILED),
        ("config: {}\n", State.UNKNOWN),
    ],
)
def test_secrets_of_a_cloud_are_under_its_key(tmp_path: Path, text: str, expected: State) -> None:
    (found,) = examine.check_secrets(where(tmp_path, backend="gs://b", text=text), gke())
    assert found.state is expected


# ---- image and charts ------------------------------------------------------------------


def test_a_missing_image_is_reported_with_the_command() -> None:
    (found,) = examine.check_image(new_stack(Provider.GKE), name="gke-prod", web=QUICK)
    assert (found.state, found.fix) == (State.FAILED, "muster image push gke-prod")


def test_an_unreachable_registry_is_reported() -> None:
    dead = new_stack(Provider.GKE, image=f"127.0.0.1:9/muster@{DIGEST}")
    (found,) = examine.check_image(dead, name="here", web=QUICK)
    assert found.state is State.FAILED
    assert "does not answer" in found.message


def test_charts_in_a_folder_are_found_there(tmp_path: Path) -> None:
    here = new_stack(Provider.GKE, charts={"path": str(tmp_path)})
    found = list(examine.check_charts(here, name="here", web=QUICK))
    assert {each.state for each in found} == {State.FAILED}
    (tmp_path / "kueue-0.19.2.tgz").write_bytes(b"x")
    found = list(examine.check_charts(here, name="here", web=QUICK))
    assert [each.message for each in found if each.state is State.OK] == [str(tmp_path / "kueue-0.19.2.tgz")]


# ---- the command -------------------------------------------------------------------------


def test_a_check_that_breaks_has_found_nothing_out() -> None:
    def broken() -> list[Finding]:
        raise ValueError("odd")

    (found,) = run_checks([("odd one", broken)])
    assert (found.check, found.state) == ("odd one", State.UNKNOWN)


def test_a_check_whose_package_is_missing_names_the_extra() -> None:
    def lacking() -> list[Finding]:
        raise ModuleNotFoundError("No module named 'google_auth_httplib2'", name="google_auth_httplib2")

    (found,) = run_checks([("cloud", lacking)], extra="gke")
    assert (found.state, found.message) == (
        State.UNKNOWN,
        "needs the Python package google_auth_httplib2, which is not installed",
    )
    assert "-m pip install" in found.fix
    assert "[gke]" in found.fix


def test_a_missing_pulumi_is_not_called_a_missing_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    nowhere = examine.PulumiState(stack="here", file=Path("x"), backend="")
    (found,) = examine.check_backend(nowhere, new_stack(Provider.GKE).cluster)
    assert (found.state, found.message) == (State.FAILED, "the Pulumi CLI is not on PATH")


def test_a_cloud_without_a_login_is_one_finding_with_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody() -> Any:
        raise GoogleError("there are no application default credentials.")

    monkeypatch.setattr("muster.cloud.clients._default", nobody)
    (_, cloud_check, *_) = checks(new_stack(Provider.GKE), name="here", file=Path("x"))
    (found,) = run_checks([cloud_check])
    assert (found.check, found.state) == ("credentials", State.FAILED)
    assert found.message.endswith("credentials. Skipped: APIs, GPU quota, zones, machines.")
    assert "gcloud auth application-default login" in found.fix


# ---- The cluster -------------------------------------------------------------------


def _check(name: str, controller: str, **active: str) -> dict[str, Any]:
    conditions = [{"type": "Active", **active}] if active else []
    return {
        "metadata": {"name": name},
        "spec": {"controllerName": controller},
        "status": {"conditions": conditions},
    }


def _admission(*listed: dict[str, Any], status: int = 200) -> list[Finding]:
    def answer(_: Asked) -> Reply:
        return Reply(status, {"metadata": {}, "items": list(listed)})

    with serving(answer) as server:
        return list(cluster_checks.check_admission(Client(Access(server=server.url))))


def test_an_inactive_admission_check_is_named_with_its_reason() -> None:
    gone = "there is no GangPolicy default; create it, or name another one"
    found = _admission(
        _check("gang", names.CONTROLLER_NAME, status="False", message=gone),
        _check("budget", "example.com/budget"),
        _check("other", "example.com/other", status="True", message="The check is active"),
    )
    assert by_state(found) == [("admission checks", State.FAILED)] * 2
    mine, silent = found
    assert "AdmissionCheck gang is inactive" in mine.message
    assert gone in mine.message
    assert "kubectl get pods -n muster-system" in mine.fix
    assert "example.com/budget has not answered for it" in silent.message
    assert "muster-system" not in silent.fix


def test_active_checks_pass_and_a_cluster_without_kueue_has_none() -> None:
    active = _check("gang", names.CONTROLLER_NAME, status="True")
    assert by_state(_admission(active)) == [("admission checks", State.OK)]
    assert _admission() == []
    assert _admission(status=404) == []


def test_the_context_of_an_existing_cluster_is_that_of_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file = tmp_path / "config"
    config_file.write_text("contexts: []")
    monkeypatch.setenv("KUBECONFIG", str(config_file))
    known = new_stack(Provider.EXISTING)
    reach = command._cluster(known, None, "")
    assert reach is not None
    with pytest.raises(KubeconfigError, match="no context"):
        reach()
    assert command._cluster(new_stack(Provider.GKE), None, "") is None
    assert command._cluster(new_stack(Provider.GKE), None, "prod") is not None


def _of_the_cluster(reach: Reach, *, probes: bool = False) -> list[Finding]:
    known = checks(new_stack(Provider.EXISTING), name="here", file=Path("x"), cluster=reach, probes=probes)
    return list(run_checks([known[-1]]))


def test_a_cluster_that_cannot_be_reached_is_one_finding_with_what_it_leaves_out(tmp_path: Path) -> None:
    (unread,) = _of_the_cluster(lambda: connect(tmp_path / "config"), probes=True)
    assert (unread.check, unread.state) == ("cluster", State.UNKNOWN)
    assert unread.message.endswith(
        "No such file or directory. Skipped: admission checks, empty nodes, broken nodes, versions, GPU "
        "isolation, network policies."
    )
    assert unread.fix == "name one by --kubeconfig or KUBECONFIG."
    with serving(lambda _: Reply(401)) as server:
        (refused,) = _of_the_cluster(lambda: Client(Access(server=server.url)))
    assert [asked.path for asked in server.asked] == ["/version"]
    assert "answered 401" in refused.message
    assert "kubectl" in refused.fix


def test_a_cluster_that_hides_its_version_is_still_checked() -> None:
    def answer(asked: Asked) -> Reply:
        checks = [_check("gang", names.CONTROLLER_NAME, status="True")]
        listed = checks if "admissionchecks" in asked.path else []
        return Reply(403) if asked.path == "/version" else Reply(200, {"metadata": {}, "items": listed})

    with serving(answer) as server:
        found = _of_the_cluster(lambda: Client(Access(server=server.url)))
    assert by_state(found) == [("admission checks", State.OK)]


@pytest.mark.parametrize(("state_", "code"), [(State.OK, 0), (State.UNKNOWN, 0), (State.FAILED, 1)])
def test_the_exit_code_shows_whether_a_check_failed(
    state_: State,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "Pulumi.here.yaml"
    file.write_text(template("here", Provider.GKE))
    monkeypatch.setattr(command, "examine", lambda *_, **__: iter([Finding("x", state_, "m", "f")]))
    assert main(["doctor", str(file), "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "stack": "here",
        "findings": [{"check": "x", "state": state_.value, "message": "m", "fix": "f"}],
    }


def test_a_stack_that_is_not_there_is_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def _deployment(image: str) -> dict[str, Any]:
    containers = [{"image": image}]
    return {"metadata": {"labels": {}}, "spec": {"template": {"spec": {"containers": containers}}}}


def _versions(here: Stack, *, kuberay: str, kubernetes: str = "v1.34.9-eks-1") -> list[Finding]:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/version":
            return Reply(200, {"gitVersion": kubernetes})
        items = [_deployment(f"quay.io/kuberay/operator:{kuberay}")] if "kuberay" in asked.path else []
        return Reply(200, {"metadata": {}, "items": items})

    with serving(answer) as server:
        return list(support.check_versions(here, Client(Access(server=server.url))))


def test_the_next_step_of_each_program_is_judged_by_what_runs() -> None:
    here = new_stack(Provider.EKS, versions={"kuberay": "1.6.2"})
    minor = kubernetes_of(here)
    (found,) = _versions(here, kuberay="v1.6.1", kubernetes=f"v{minor}.9-eks-1")
    assert (found.check, found.state) == ("versions", State.OK)
    (found,) = _versions(here, kuberay="v1.5.1", kubernetes=f"v{minor}.9-eks-1")
    assert found.state is State.UNKNOWN
    assert "first the CRDs" in found.message
    found, *_ = _versions(here, kuberay="v1.6.2", kubernetes="v1.32.1")
    assert found.state is State.UNKNOWN
    assert "needs an order" in found.message
    assert "one minor version at a time" in found.message


def _eks_version(here: Stack, running: str | None, *, today: date) -> list[Finding]:
    cluster = here.cluster
    assert isinstance(cluster, EksCluster)
    made, stub = client("eks")
    if running is None:
        stub.add_client_error("describe_cluster", "ResourceNotFoundException")
    else:
        stub.add_response("describe_cluster", {"cluster": {"version": running}})
    return list(support.check_eks_version(here, cluster, made, today=today))


def _with_kubernetes(version: str) -> Stack:
    cluster = new_config(Provider.EKS)["muster:cluster"]
    return new_stack(Provider.EKS, cluster=cluster | {"version": version})


def test_a_new_cluster_of_an_unsupported_version_fails_and_an_old_one_does_not() -> None:
    day = date(2026, 12, 3)
    (found,) = _eks_version(_with_kubernetes("1.34"), None, today=day)
    assert (found.check, found.state) == ("support", State.FAILED)
    (found,) = _eks_version(_with_kubernetes("1.34"), "1.34", today=day)
    assert found.state is State.UNKNOWN
    assert "ended on 2026-12-02" in found.message
    (found,) = _eks_version(_with_kubernetes("1.36"), "1.36", today=day)
    assert found.state is State.OK


def test_a_cluster_that_aws_has_raised_is_named_with_the_version_to_write() -> None:
    raised, _ = _eks_version(_with_kubernetes("1.34"), "1.35", today=date(2027, 1, 1))
    assert raised.state is State.FAILED
    assert "AWS raised it" in raised.message
    assert 'write `version: "1.35"`' in raised.fix
