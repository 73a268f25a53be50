"""A chart in the place of one that cannot be had offline: it records what it is told and starts nothing.

Its schema knows the value paths of the original that this project uses, and Helm refuses any other value.
test_recording.py holds the paths to the original's published values where those are present.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

# nvidia/gpu-operator v26.7.0, its values.yaml. A path holds everything below it.
GPU_OPERATOR: Final = (
    "cdi.enabled",
    "daemonsets.tolerations",
    "dcgmExporter.enabled",
    "dcgmExporter.serviceMonitor.enabled",
    "devicePlugin.enabled",
    "devicePlugin.config.create",
    "devicePlugin.config.data",
    "devicePlugin.config.default",
    "devicePlugin.config.name",
    "driver.enabled",
    "driver.usePrecompiled",
    "driver.version",
    "gfd.enabled",
    "hostPaths.driverInstallDir",
    "mig.strategy",
    "migManager.enabled",
    "migManager.config.name",
    "migManager.env",
    "nfd.enabled",
    "node-feature-discovery",
    "operator.image",
    "operator.nodeSelector",
    "operator.resources",
    "operator.upgradeCRD",
    "operator.cleanupCRD",
    "toolkit.enabled",
    "toolkit.installDir",
    "toolkit.env",
    "validator.plugin.env",
)
# ray-project/kuberay, helm-chart/kuberay-operator v1.6.0, its values.yaml.
KUBERAY: Final = (
    *("image.repository", "image.tag", "image.pullPolicy"),
    *("nodeSelector", "resources", "reconcileConcurrency", "env", "batchScheduler.name"),
)
# kai-scheduler v0.17.0, its values.yaml.
KAI: Final = (
    *(f"global.{key}" for key in ("registry", "gpuSharing", "clusterAutoscaling", "leaderElection")),
    *("global.nodeSelector", "global.nodePoolLabelKey", "operator.replicaCount"),
    *("podgrouper.queueLabelKey", "admission.gpuFractionRuntimeClassName", "kaiConfig.render"),
    *("kaiConfigDeployer.enabled", "topologyMigration.enabled", "postCleanup.enabled"),
    *("defaultShard.enabled", "defaultPriorityClasses.enabled", "defaultQueue.createDefaultQueue"),
)
# karpenter v1.14.1, its values.yaml as in the Go module of v1.15.1.
KARPENTER: Final = (
    *("replicas", "serviceAccount.name", "nodeSelector", "topologySpreadConstraints"),
    *("controller.image.repository", "controller.image.tag", "controller.image.digest"),
    *("controller.resources", "settings.clusterName", "settings.interruptionQueue"),
)
_RECORD: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-recorded
  namespace: {{ .Release.Namespace }}
data:
  values.json: {{ .Values | toJson | quote }}
"""


def chart(folder: Path, *, name: str, version: str, paths: Iterable[str], crds: Path | None = None) -> Path:
    """Writes the chart: it takes values at these paths and below them alone, and brings a folder of CRDs."""
    (folder / "templates").mkdir(parents=True)
    if crds is not None:
        shutil.copytree(crds, folder / "crds")
    (folder / "templates" / "recorded.yaml").write_text(_RECORD)
    description = "Stands in for the chart of this name in tests: records its values, starts nothing."
    meta = {"apiVersion": "v2", "name": name, "version": version, "description": description}
    (folder / "Chart.yaml").write_text(json.dumps(meta))
    (folder / "values.schema.json").write_text(json.dumps(_schema(paths)))
    return folder


def _schema(paths: Iterable[str]) -> dict[str, Any]:
    root = _closed({})
    for path in paths:
        *steps, last = path.split(".")
        here = root
        for step in steps:
            here = here["properties"].setdefault(step, _closed({}))
        here["properties"][last] = {}
    # Helm itself puts `global` into every chart's values.
    root["properties"].setdefault("global", _closed({}))
    return root


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}
