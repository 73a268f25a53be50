"""Production goes first, and development comes back by itself."""

from functools import partial

from muster.local.demo.cluster import Object
from muster.local.demo.events import condition, holds
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster
from tests.e2e.recorder import Life, version


def test_prod_preempts_a_dev_rayjob_which_resumes_and_succeeds(muster: Muster) -> None:
    told = muster.story("priority", "--delete")

    assert told[-1]["result"] == "succeeded"
    record = muster.recorder
    dev, prod = gangs.job(record, "RayJob", "dev"), gangs.job(record, "RayJob", "prod")
    _assert_preempted_and_back(muster, "dev")
    assert _succeeded(prod) < _succeeded(dev)
    assert dev.since(lambda found: (found.get("status") or {}).get("jobDeploymentStatus") == "Suspended")
    # It asks for its nodes anew, or takes those that prod leaves.
    assert len(gangs.attempts(record, "dev")) == 2
    assert any("resumes after round" in line.get("text", "") for line in told)


def test_prod_preempts_a_dev_raycluster_which_comes_back(muster: Muster) -> None:
    record, image = muster.recorder, muster.image("python")
    (manifest,) = light.example("priority/dev-raycluster.yaml", image=image)
    muster.cluster.apply(light.asleep(manifest, image=image))
    muster.wait("notebook runs", lambda: gangs.is_ready(record, "notebook"))
    notebook = gangs.job(record, "RayCluster", "notebook")

    muster.cluster.apply(light.gpu_job("prod", namespace="team-b", image=image, pool="l4", seconds=5))
    muster.wait("notebook is suspended", lambda: _state(notebook) == "suspended")
    suspended = version(notebook.last)
    muster.wait("prod is complete", lambda: gangs.status(record, "Job", "prod").get("succeeded") == 1)
    muster.wait("notebook runs again", lambda: gangs.is_ready(record, "notebook"))

    # By the versions: when its watch tells that it is suspended, that of its pods may still be behind.
    before = [life for life in gangs.pods(record, "notebook") if life.born < suspended]
    assert before
    assert all(life.gone is not None and life.gone < suspended for life in before)
    _assert_preempted_and_back(muster, "notebook")


def test_a_team_takes_back_what_another_has_borrowed(muster: Muster) -> None:
    record, image = muster.recorder, muster.image("python")
    muster.capacity(l4=2)
    for name in ("own", "borrowed"):
        muster.cluster.apply(light.gpu_job(name, namespace="team-a", image=image, pool="l4", priority="dev"))
        muster.wait(f"{name} runs", partial(gangs.runs, record, name))

    muster.cluster.apply(light.gpu_job("lender", namespace="team-b", image=image, pool="l4"))
    muster.wait("the lender runs", lambda: gangs.runs(record, "lender"))

    running = [name for name in ("own", "borrowed") if gangs.runs(record, name)]
    assert len(running) == 1
    victim = next(name for name in ("own", "borrowed") if name not in running)
    evicted = gangs.workload(record, victim).first(lambda found: holds(found, "Evicted"))
    assert evicted is not None
    assert _reason(evicted) == "Preempted"
    assert not gangs.has_quota(record, victim)


def _assert_preempted_and_back(muster: Muster, name: str) -> None:
    """Evicted for a higher priority, kept in its queue, without pods in between, and admitted once more."""
    workload = gangs.workload(muster.recorder, name)
    evicted = workload.first(lambda found: holds(found, "Evicted"))
    assert evicted is not None
    assert _reason(evicted) == "Preempted"
    assert workload.last["spec"]["queueName"] == "default"
    admissions = {gangs.moment(found, "Admitted") for found in workload.versions if holds(found, "Admitted")}
    assert len(admissions) == 2
    second = next(
        version(found)
        for found in workload.versions
        if holds(found, "Admitted") and gangs.moment(found, "Admitted") == max(admissions)
    )
    before = [life for life in gangs.pods(muster.recorder, name) if life.born < second]
    assert before
    assert all(life.gone is not None and life.gone < second for life in before)


def _reason(workload: Object) -> str:
    one = condition(workload, "Evicted")
    return str(one and one["reason"])


def _succeeded(job: Life) -> int:
    since = job.since(lambda found: (found.get("status") or {}).get("jobStatus") == "SUCCEEDED")
    assert since is not None, f"{job.name} did not succeed"
    return since


def _state(cluster: Life) -> str:
    return str((cluster.last.get("status") or {}).get("state"))
