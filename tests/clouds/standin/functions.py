"""The few functions of the providers that the components call: what the account is, what a region has."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.clouds.standin.cloud import Cloud
from tests.clouds.standin.tables.aws_account import ACCOUNT
from tests.clouds.standin.tables.eks import CLUSTER_TYPE

Answer = dict[str, Any]


def _caller(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    arn = f"arn:aws:iam::{ACCOUNT}:user/stand-in"
    return {"id": ACCOUNT, "accountId": ACCOUNT, "arn": arn, "userId": "AIDASTANDIN"}


def _partition(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    return {
        "id": "aws",
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
    }


def _region(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    region = cloud.handed.get("region", "us-east-1")
    return {"id": region, "name": region, "region": region, "description": "", "endpoint": ""}


def _zones(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    region = cloud.handed.get("region", "us-east-1")
    names = [f"{region}{letter}" for letter in "abc"]
    return {
        "id": region,
        "names": names,
        "zoneIds": [f"use1-az{n}" for n in (1, 2, 3)],
        "groupNames": [region],
    }


def _client(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    return {
        "id": "client",
        "project": cloud.handed.get("project", ""),
        "region": cloud.handed.get("region", ""),
        "zone": "",
        "accessToken": "stand-in",
        "defaultLabels": {},
    }


_PROJECT_NUMBER: Final = "123456789012"


def _project(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    project = arguments.get("projectId") or cloud.handed.get("project", "")
    return {"id": f"projects/{project}", "projectId": project, "number": _PROJECT_NUMBER, "name": project}


def _eks_clusters(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    return {"id": "clusters", "names": [each.inputs["name"] for each in cloud.of(CLUSTER_TYPE)]}


def _eks_cluster(arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    found = cloud.find(CLUSTER_TYPE, arguments["name"])
    if found is None:
        raise LookupError("couldn't find resource")
    return {"id": arguments["name"], "name": arguments["name"], "version": found["version"]}


_FUNCTIONS: Final[dict[str, Callable[[Mapping[str, Any], Cloud], Answer]]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
    "aws:eks/getCluster:getCluster": _eks_cluster,
    "aws:eks/getClusters:getClusters": _eks_clusters,
    "gcp:organizations/getClientConfig:getClientConfig": _client,
    "gcp:organizations/getProject:getProject": _project,
}


def call(token: str, arguments: Mapping[str, Any], cloud: Cloud) -> Answer:
    """The function's answer; LookupError for one that the stand-ins do not have."""
    if token not in _FUNCTIONS:
        raise LookupError("the stand-in has no such function: look it up and add it")
    return _FUNCTIONS[token](arguments, cloud)
