"""KAI's programs on a local cluster: a scheduler for each shard, and the accounts that they act with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.local import kai as programs
from muster.local.cluster import kai
from tests.waiting import eventually

_BINPACK = {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}
_SPREAD = {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}


@pytest.fixture
def schedulers(tmp_path: Path) -> Iterator[kai.Schedulers]:
    """With a program in place of KAI's scheduler that adds its arguments to a file, and stays."""
    program = tmp_path / "scheduler"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/started\nexec sleep 600\n')
    program.chmod(0o755)
    made = kai.Schedulers(str(program), tmp_path / "kubeconfig", folder=tmp_path, logs=tmp_path)
    yield made
    made.converge({})


def started(folder: Path, count: int) -> list[str]:
    """The arguments of the first `count` schedulers."""
    file = folder / "started"
    eventually(f"{count} schedulers were started", lambda: len(file.read_text().splitlines()) >= count)
    return file.read_text().splitlines()


def test_each_shard_gets_a_scheduler_with_its_settings(tmp_path: Path, schedulers: kai.Schedulers) -> None:
    schedulers.converge({"default": _SPREAD})
    (first,) = started(tmp_path, 1)
    assert f"--scheduler-conf={tmp_path}/kai-shard-default.yaml" in first
    assert "--nodepool-label-key= --partition-label-value= " in first
    config = yaml.safe_load((tmp_path / "kai-shard-default.yaml").read_text())
    assert {"name": "gpuspread"} in config["tiers"][0]["plugins"]
    assert config == programs.scheduler_config(_SPREAD)


def test_a_scheduler_is_left_alone_until_its_shard_changes(
    tmp_path: Path, schedulers: kai.Schedulers
) -> None:
    schedulers.converge({"default": _BINPACK})
    schedulers.converge({"default": _BINPACK})
    started(tmp_path, 1)  # It is ended by the next, perhaps before it has written its line.
    schedulers.converge({"default": _SPREAD})
    schedulers.converge({"default": _SPREAD})
    assert len(started(tmp_path, 2)) == 2


def test_shards_of_pools_share_no_port_and_know_the_label_of_their_nodes(
    tmp_path: Path, schedulers: kai.Schedulers
) -> None:
    schedulers.converge({"rest": _BINPACK, "l4": {**_BINPACK, "partitionLabelValue": "l4"}})
    lines = started(tmp_path, 2)
    assert all("--nodepool-label-key=muster.dev/pool" in line for line in lines)
    assert sum("--partition-label-value=l4" in line for line in lines) == 1
    ports = [word for line in lines for word in line.split() if "-address=" in word or "-port=" in word]
    assert len(ports) == len(set(ports)) == 4


def test_every_program_acts_with_the_role_of_its_own_account(tmp_path: Path) -> None:
    roles = {each.role: name for name, each in programs.PROGRAMS.items()}
    roles["resourcereservation.yaml"] = programs.RESERVATIONS
    for file, name in roles.items():
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
        }
        (tmp_path / file).write_text(yaml.safe_dump(role))
    objects = kai.accounts(tmp_path)
    bound = {
        each["roleRef"]["name"]: each["subjects"][0]["name"]
        for each in objects
        if each["kind"] == "ClusterRoleBinding"
    }
    assert bound == {name: program.account for name, program in programs.PROGRAMS.items()}
    (inside,) = (each for each in objects if each["kind"] == "RoleBinding")
    assert inside["metadata"]["namespace"] == programs.RESERVATIONS
    assert inside["roleRef"]["name"] == programs.RESERVATIONS
    (subject,) = inside["subjects"]
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert made == {*bound.values(), subject["name"]}
