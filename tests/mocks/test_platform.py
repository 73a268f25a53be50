"""The platform as the engine is told it: what stands under what, waits for what, runs what, and where."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.artifacts.resolved import Artifacts
from muster.components import kuberay
from muster.components.clusters.cluster import kubeconfig_of
from muster.components.existing_programs import IncompatibleProgramError
from muster.components.gang_pods import sizing_of
from muster.components.platform import Platform, PlatformArgs
from muster.config import load
from muster.kubernetes.kubeconfig import KubeconfigError
from muster.model.observability import RecordingSettings
from muster.model.priorities import HIGHEST
from muster.model.programs import ProgramOptions
from muster.model.stack import GangMode, Stack
from muster.policies.pack import RULES
from muster.policies.registered import Registered as Registry
from muster.policies.registered import Resource
from muster.policies.rule import Case
from tests.mocks import shipped
from tests.mocks.recorder import Program, Registered, refused, run

BUNDLE = "muster:k8s:Bundle"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PROGRAMS = ("gang-admission-manager-deployment", "gang-admission-webhooks-deployment")
RELEASE = "kubernetes:helm.sh/v3:Release"
DIRECTORY = "kubernetes:kustomize/v2:Directory"
IMAGES = {name: f"registry.test/{name}@sha256:{'ab' * 32}" for name in ("kueue", "kuberay", "gang-admission")}
LOCAL = Path(__file__).parents[2] / "stacks" / "Pulumi.local.yaml"


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return replace(shipped.built(tmp_path_factory.mktemp("artifacts")), images=IMAGES)


@pytest.fixture(scope="module")
def stack() -> Stack:
    return load(LOCAL)


@pytest.fixture(scope="module", autouse=True)
def _kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path = tmp_path_factory.mktemp("kube") / "config"
    path.write_text(
        json.dumps(
            {
                "contexts": [
                    {"name": "muster", "context": {"cluster": "k", "user": "u"}},
                    {"name": "other", "context": {}},
                ],
                "clusters": [
                    {"name": "k", "cluster": {"server": "https://k", "certificate-authority": "ca.pem"}}
                ],
                "users": [
                    {"name": "u", "user": {"token": "t"}},
                    {"name": "stranger", "user": {"token": "x"}},
                ],
            }
        )
    )
    (path.parent / "ca.pem").write_text("PEM")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(path))
        yield


@pytest.fixture(scope="module")
def program(stack: Stack, artifacts: Artifacts, _kubeconfig: None) -> Program:
    return shipped.platform(stack, artifacts)


def test_everything_has_a_parent_and_the_root_is_the_platform(program: Program) -> None:
    roots = [each for each in program.resources if each.parent.split("::")[2] == "pulumi:pulumi:Stack"]
    assert [each.type for each in roots] == ["muster:index:Platform"]


def test_nothing_goes_to_a_cluster_that_the_stack_does_not_name(program: Program) -> None:
    for each in program.resources:
        if each.is_custom and not each.type.startswith("pulumi:providers:"):
            assert "::local-" in each.provider, each.name


def test_a_team_s_urn_holds_no_department(program: Program, stack: Stack) -> None:
    teams = {team.name for _, team in stack.teams()}
    found = {each.name: each.urn for each in program.of(BUNDLE) if each.name in teams}
    assert found.keys() == teams
    assert not any(department.name in urn for _, department in stack.walk() for urn in found.values())


def test_a_team_is_shown_under_its_department(program: Program, stack: Stack) -> None:
    headings = {each.urn: each.name for each in program.of("muster:index:Department")}
    shown = {each.name: headings[each.parent] for each in program.of(BUNDLE) if each.parent in headings}
    assert shown == {team.name: above[-1].name for above, team in stack.teams()}


def chain(program: Program) -> list[Registered]:
    return [
        program.one(BUNDLE, "crds"),
        program.one(RELEASE, "kueue"),
        program.one(DEPLOYMENT, "gang-admission-manager-deployment"),
        program.one(BUNDLE, "queues-flavors"),
        program.one(BUNDLE, "queues-cohorts"),
        program.one(BUNDLE, "team-a"),
    ]


def test_crds_then_programs_then_queues_then_teams(program: Program) -> None:
    links = chain(program)
    for earlier, later in itertools.pairwise(links):
        assert program.comes_after(later, earlier), f"{later.name} does not wait for {earlier.name}"
        assert not program.comes_after(earlier, later)


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (DIRECTORY, "kuberay"),
        (DEPLOYMENT, "gang-admission-webhooks-deployment"),
        (BUNDLE, "gang-admission-policy"),
        (BUNDLE, "priorities-classes"),
        (BUNDLE, "kuberay-crds"),
    ],
)
def test_a_team_leaves_before_whatever_its_finalizers_need(program: Program, type_: str, name: str) -> None:
    assert program.comes_after(program.one(BUNDLE, "team-a"), program.one(type_, name))


def test_the_manager_finds_the_configuration_whose_webhooks_the_service_serves(program: Program) -> None:
    configuration = program.of("kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration")[0]
    manager = program.one(DEPLOYMENT, "gang-admission-manager-deployment")
    assert program.comes_after(manager, configuration)
    service = program.one("kubernetes:core/v1:Service", "gang-admission-webhooks-service").inputs
    for each in configuration.inputs["webhooks"]:
        called = each["clientConfig"]["service"]
        assert (called["namespace"], called["name"]) == (
            service["metadata"]["namespace"],
            service["metadata"]["name"],
        )
        assert called["port"] == service["spec"]["ports"][0]["port"]


def test_a_configuration_with_another_list_of_webhooks_is_made_anew(program: Program) -> None:
    """The API server would refuse what the certificate keeper's part of a dropped webhook leaves behind."""
    for kind in ("Validating", "Mutating"):
        (made,) = program.of(f"kubernetes:admissionregistration.k8s.io/v1:{kind}WebhookConfiguration")
        listed = ",".join(webhook["name"] for webhook in made.inputs["webhooks"])
        assert made.inputs["metadata"]["annotations"]["muster.dev/webhooks"] == listed
        assert made.replace_on_changes == {'metadata.annotations["muster.dev/webhooks"]'}


def test_the_ray_operator_starts_when_its_kinds_exist(program: Program) -> None:
    assert program.comes_after(program.one(DIRECTORY, "kuberay"), program.one(BUNDLE, "kuberay-crds"))


def test_every_image_is_given_by_digest_and_never_pulled_again(program: Program) -> None:
    manager = program.one(RELEASE, "kueue").inputs["values"]["controllerManager"]["manager"]
    image = manager["image"]
    assert f"{image['repository']}:{image['tag']}" == IMAGES["kueue"]
    assert image["pullPolicy"] == "IfNotPresent"
    for container in containers(program):
        assert container["image"] == IMAGES["gang-admission"]
        assert container["imagePullPolicy"] == "IfNotPresent"


def operator(stack: Stack) -> kuberay.Operator:
    size = sizing_of(stack)
    return kuberay.Operator(
        image="i",
        scheduler=stack.scheduler,
        resources=size.kuberay.resources(),
        node_selector=size.node_selector(),
    )


def test_control_pods_stay_on_the_system_pool(program: Program, artifacts: Artifacts, stack: Stack) -> None:
    from muster.components.kuberay import overlay

    selector = {"muster.dev/pool": "system"}
    assert program.one(RELEASE, "kueue").inputs["values"]["controllerManager"]["nodeSelector"] == selector
    patch = json.loads(overlay(operator(stack))["patches"][0]["patch"])
    assert patch["spec"]["template"]["spec"]["nodeSelector"] == selector
    for deployment in program.of(DEPLOYMENT):
        assert deployment.inputs["spec"]["template"]["spec"]["nodeSelector"] == selector


def test_no_work_takes_our_pods_nodes_and_they_take_nobodys(program: Program) -> None:
    (made,) = program.of("kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert made.inputs["value"] == HIGHEST, "a stack's own class may go that far"
    assert made.inputs["preemptionPolicy"] == "Never"
    for name in PROGRAMS:
        deployment = program.one(DEPLOYMENT, name)
        pod = deployment.inputs["spec"]["template"]["spec"]
        assert pod["priorityClassName"] == made.inputs["metadata"]["name"]
        assert program.comes_after(deployment, made), "a pod of a class that is not there is refused"


def test_replicas_keep_apart_from_their_own_build_alone_and_run_where_they_cannot(program: Program) -> None:
    """Those of the build before stand on every node of a small cluster until they are gone."""
    for name in PROGRAMS:
        template = program.one(DEPLOYMENT, name).inputs["spec"]["template"]
        apart = template["spec"]["affinity"]["podAntiAffinity"]
        (node,) = apart["preferredDuringSchedulingIgnoredDuringExecution"]
        (zone,) = template["spec"]["topologySpreadConstraints"]
        assert apart.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}
        assert zone["whenUnsatisfiable"] == "ScheduleAnyway"
        for term in (node["podAffinityTerm"], zone):
            assert term["matchLabelKeys"] == ["pod-template-hash"]
            # The API server refuses a key that stands in both.
            assert term["labelSelector"] == {"matchLabels": template["metadata"]["labels"]}


def test_our_pods_can_do_nothing_but_their_work(program: Program) -> None:
    for deployment in program.of(DEPLOYMENT):
        pod = deployment.inputs["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "volumes" not in pod, "keys are held in memory: see muster/controller/kube/tls.py"
    for container in containers(program):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def test_no_role_of_ours_has_a_wildcard_and_secrets_are_reached_by_name(program: Program) -> None:
    rules = [
        rule
        for kind in ("Role", "ClusterRole")
        for each in program.of(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}")
        for rule in each.inputs["rules"]
    ]
    assert rules
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        if {"secrets", "validatingwebhookconfigurations", "leases"} & set(rule["resources"]):
            assert rule["verbs"] == ["create"] or rule["resourceNames"]


def test_kueue_s_configuration_is_the_model_s_and_nobody_else_s(program: Program, stack: Stack) -> None:
    from muster.render import kueue

    config = program.one(RELEASE, "kueue").inputs["values"]["managerConfig"]["controllerManagerConfigYaml"]
    assert yaml.safe_load(config) == kueue.manager_config(stack)


def test_all_requests_of_the_local_control_plane_fit_its_nodes(stack: Stack) -> None:
    size = sizing_of(stack)
    cpu = [int(each.cpu.removesuffix("m")) for each in (size.kueue, size.kuberay)]
    cpu += [int(size.manager.cpu.removesuffix("m"))] * size.manager_replicas
    cpu += [int(size.webhooks.cpu.removesuffix("m"))] * size.webhook_replicas
    assert sum(cpu) <= 300


KUEUE = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
KUBERAY = {"app.kubernetes.io/name": "kuberay-operator"}


def deployment(namespace: str, image: str, labels: Mapping[str, str]) -> dict[str, Any]:
    containers = [{"image": image}]
    return {
        "metadata": {"namespace": namespace, "labels": dict(labels)},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            deployment("kueue-system", "x/kueue:v0.15.2", KUEUE),
            r"0\.15\.2 in namespace kueue-system; Muster needs 0\.19",
        ),
        (deployment("kueue-system", "x/kueue:latest", KUEUE), "of unknown version"),
        (deployment("elsewhere", "x/kueue:v0.19.2", KUEUE), "another Kueue"),
        (
            deployment("elsewhere", "x/operator:v1.6.2", KUBERAY),
            r"another KubeRay .*`muster:kuberay\.install: false",
        ),
    ],
)
def test_a_program_that_is_in_the_way_is_refused_before_anything_is_made(
    stack: Stack, artifacts: Artifacts, found: dict[str, Any], message: str
) -> None:
    program = refused(
        lambda: Platform("muster", PlatformArgs(stack=stack, artifacts=artifacts)),
        IncompatibleProgramError,
        match=message,
        existing=[found],
    )
    # A ClusterRole grants nothing before it is bound, so it has no edge to anything (gang_admission.py).
    unbound = ("pulumi:providers:", "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole")
    made = [each for each in program.resources if each.is_custom]
    assert [each.name for each in made if not each.type.startswith(unbound)] == []


def test_our_own_kueue_is_upgraded(stack: Stack, artifacts: Artifacts) -> None:
    labels = {**KUEUE, "app.kubernetes.io/version": "v0.19.2"}
    ours = deployment("kueue-system", "x/kueue:release-0.19", labels)
    assert shipped.platform(stack, artifacts, existing=[ours]).of(RELEASE)


def test_programs_that_the_cluster_has_are_left_alone(stack: Stack, artifacts: Artifacts) -> None:
    without = replace(stack, kueue=replace(stack.kueue, install=False), kuberay=ProgramOptions(install=False))
    theirs = [
        deployment("kueue-system", "x/kueue:v0.19.2", KUEUE),
        deployment("ray-system", "x/operator:v1.6.2", KUBERAY),
    ]
    program = shipped.platform(without, artifacts, existing=theirs)
    assert program.of(RELEASE) == []
    names = {each.name for each in program.of("muster:k8s:Bundle")}
    assert "kuberay-admission" in names
    assert not names & {"kuberay-crds", "kueue-roles"}
    team = program.one("muster:k8s:Bundle", "team-a")
    assert program.comes_after(team, program.one("muster:k8s:Bundle", "kuberay-admission"))
    missing = refused(
        lambda: Platform("muster", PlatformArgs(stack=without, artifacts=artifacts)),
        IncompatibleProgramError,
        match="the cluster has no Kueue",
        existing=theirs[1:],
    )
    assert missing.of("muster:k8s:Bundle") == []


def test_a_team_is_ready_when_a_dry_run_of_its_ray_job_is_accepted(program: Program) -> None:
    for team in ("team-a", "team-b", "team-c"):
        inputs = program.one("muster:k8s:Bundle", team).inputs
        assert inputs["dryRuns"].keys() == inputs["manifests"].keys() == {team}
        (job,) = json.loads(inputs["dryRuns"][team]).values()
        assert (job["kind"], job["metadata"]["namespace"]) == ("RayJob", team)


def test_a_context_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        KubeconfigError,
        match=r"muster:cluster.context: there is no context 'prod'; .* has muster, other[.] Fix",
    ):
        kubeconfig_of("prod", stack_path="muster:cluster.context")


def test_a_machine_without_a_kubeconfig_reads_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(KubeconfigError, match=r"no kubeconfig was found: .*[$]KUBECONFIG.*~/.kube/config"):
        kubeconfig_of("prod", stack_path="muster:cluster.context")


def test_without_gang_admission_nothing_of_it_is_there(stack: Stack, artifacts: Artifacts) -> None:
    platforms: list[Platform] = []
    off = replace(stack, gang_admission=replace(stack.gang_admission, mode=GangMode.OFF))
    run(lambda: platforms.append(Platform("muster", PlatformArgs(stack=off, artifacts=artifacts))))
    (platform,) = platforms
    assert (platform.gang_admission, platform.watching, platform.recorder) == (None, None, None)


def test_only_the_named_context_is_handed_on_and_no_path_of_this_machine() -> None:
    config = json.loads(kubeconfig_of("muster", stack_path="x")[0])
    assert [len(config[section]) for section in ("contexts", "clusters", "users")] == [1, 1, 1]
    assert config["clusters"][0]["cluster"] == {"server": "https://k", "certificate-authority-data": "UEVN"}
    assert "stranger" not in json.dumps(config)


def test_the_kubeconfig_is_a_secret(program: Program) -> None:
    for each in program.resources:
        if each.type.startswith("pulumi:providers:"):
            assert set(each.inputs["kubeconfig"]) >= {"value"}, "the engine would write the credentials down"


def containers(program: Program) -> list[dict[str, Any]]:
    return [
        container
        for each in program.of(DEPLOYMENT)
        for container in each.inputs["spec"]["template"]["spec"]["containers"]
    ]


def test_teams_wait_for_a_network_that_enforces_policies_where_the_stack_wants_it_tried(
    stack: Stack, artifacts: Artifacts, program: Program
) -> None:
    job = "kubernetes:batch/v1:Job"
    assert program.of(job) == []
    wanted = replace(stack, tenancy=replace(stack.tenancy, network_probe=True))
    found = shipped.platform(wanted, artifacts)
    (probe,) = found.of(job)
    assert probe.inputs["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGES["gang-admission"]
    assert "pulumi.com/skipAwait" not in probe.inputs["metadata"].get("annotations", {})
    for earlier in ("network-probe-networkpolicy", "muster-system-namespace"):
        (before,) = [each for each in found.resources if each.name.endswith(earlier)]
        assert found.comes_after(probe, before), earlier
    assert found.comes_after(found.one(BUNDLE, "team-a"), probe)


def test_a_recorder_reads_once_its_scheduler_serves_and_its_volume_outlives_it(
    stack: Stack, artifacts: Artifacts, program: Program
) -> None:
    assert not any("recorder" in each.name for each in program.resources)
    wanted = replace(stack, recording=RecordingSettings(enabled=True))
    found = shipped.platform(wanted, artifacts)
    recorder = found.one(DEPLOYMENT, "muster-recorder-deployment")
    pod = recorder.inputs["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGES["gang-admission"]
    volume = found.one(BUNDLE, "recorder-volume")
    assert "PersistentVolumeClaim" in volume.inputs["manifests"]["muster-recorder"]
    assert volume.is_retained
    assert found.comes_after(recorder, volume)
    assert found.comes_after(recorder, found.one(RELEASE, "kueue"))
    ours = [each for each in found.resources if "recorder" in each.name]
    registered = Registry(
        tuple(Resource(urn=each.urn, type=each.type, name=each.name, inputs=each.inputs) for each in ours)
    )
    findings = [each for rule in RULES for each in rule.judge(Case(registered, rule.settings({}), wanted))]
    assert [each for each in findings if each.urn in {one.urn for one in ours}] == []


def test_a_recorder_that_forecasts_has_the_image_with_the_player(stack: Stack, artifacts: Artifacts) -> None:
    wanted = replace(stack, recording=RecordingSettings(enabled=True, forecasts=True))
    images = {**artifacts.images, "recorder": "registry.test/recorder@sha256:" + "cd" * 32}
    found = shipped.platform(wanted, replace(artifacts, images=images))
    pod = found.one(DEPLOYMENT, "muster-recorder-deployment").inputs["spec"]["template"]["spec"]
    assert {each["image"] for each in pod["containers"]} == {images["recorder"]}
    assert "muster-recorder" in found.one(BUNDLE, "tenancy-policies").inputs["manifests"]


def test_a_recording_that_ends_with_its_pod_claims_no_volume(stack: Stack, artifacts: Artifacts) -> None:
    wanted = replace(stack, recording=RecordingSettings(enabled=True, ephemeral=True))
    found = shipped.platform(wanted, artifacts)
    volumes = found.one(DEPLOYMENT, "muster-recorder-deployment").inputs["spec"]["template"]["spec"][
        "volumes"
    ]
    assert [each["emptyDir"]["sizeLimit"] for each in volumes] == ["10Gi"]
    assert not any(each.name == "recorder-volume" for each in found.resources)
