"""The recipes of docs/recipes.md that state their cost, performed in a copy of the product.

A recipe holds when its edits, in as many files as the page says, give users what they ask for, with nothing
generated anew and nothing else edited.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_PRODUCT: Final = ("muster", "components", "policies", "examples")
_COSTS: Final = {"One": 1, "Two": 2, "Three": 3}

_STACK: Final = """
config:
  muster:cluster: {provider: existing, name: a, context: a, cloud: gke, autoscaler: none}
  muster:artifacts: upstream
  muster:pools:
    cpu: {node: {cpu: 16, memory: 64Gi}, maxNodes: 4}
    gpu: {node: {cpu: 96, memory: 1Ti, gpus: 8, accelerator: ACCELERATOR}, maxNodes: 4}
  muster:departments: {research: {teams: {vision: {quota: {gpu: 8}}}}}
"""
_ON_GKE: Final = """
config:
  muster:cluster: {provider: gke, name: a, region: us-central1, project: muster-dev}
  muster:pools:
    cpu: {machine: n2-standard-6, maxNodes: 4}
    l4: {machine: g2-standard-8, accelerator: nvidia-l4, capacity: queued, maxNodes: 4}
  muster:departments: {research: {teams: {vision: {quota: {l4: 2}}}}}
"""
_JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: vision}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example.com/train:1
        resources:
          requests: {nvidia.com/gpu: 8, cpu: 8, memory: 64Gi}
          limits: {nvidia.com/gpu: 8, cpu: 8, memory: 64Gi}
"""
_TFJOB: Final = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train, namespace: vision}
spec:
  tfReplicaSpecs:
    Chief: &replica
      replicas: 1
      template:
        spec:
          containers:
          - name: tensorflow
            image: registry.example.com/train:1
            resources:
              requests: {nvidia.com/gpu: 8, cpu: 8, memory: 64Gi}
              limits: {nvidia.com/gpu: 8, cpu: 8, memory: 64Gi}
    Worker: *replica
"""


@dataclass(frozen=True)
class Recipe:
    """`edits`: what is put before the first place where a file has a text, by file and text; at the end of
    the file where the text is empty. `files`: what a user writes. `command`: what he types. `answer`:
    what it says once the recipe is done, and not before.
    """

    title: str
    edits: dict[tuple[str, str], str]
    files: dict[str, str]
    command: tuple[str, ...]
    answer: str


_RECIPES: Final = (
    Recipe(
        title="An accelerator",
        edits={
            ("muster/model/accelerators.toml", ""): (
                '\n[nvidia-x100]\nmemory_mib = 409600\nrank = 900\nresource = "nvidia.com/gpu"\n'
                'short = ["x100"]\nproduct = "x100"\nmig = {}\ngke_quota = ""\ngke_sku = ""\n'
                "gke_whole = false\n"
            )
        },
        files={"stack.yaml": _STACK.replace("ACCELERATOR", "x100")},
        command=("validate", "stack.yaml"),
        answer="stack.yaml: valid",
    ),
    Recipe(
        title="A machine",
        edits={("muster/model/machines/gke.csv", "n2-standard-8,"): "n2-standard-6,6,24,,0\n"},
        files={"stack.yaml": _ON_GKE},
        command=("validate", "stack.yaml"),
        answer="stack.yaml: valid",
    ),
    Recipe(
        title="A kind of work",
        edits={
            ("muster/model/work.py", '    LWS = "lws"\n'): '    TFJOB = "tfjob"\n',
            ("muster/model/work.py", "    # mpi-operator "): """    _kubeflow(
        family=Work.TFJOB,
        kind="TFJob",
        version="v1",
        resource="tfjobs",
        framework="kubeflow.org/tfjob",
        word="tfJobs",
        pods=(Pods(template=Path("spec.tfReplicaSpecs{Chief,Worker}.template"), counts=("replicas",)),),
        controller="kubeflow:training-operator",
        manager="kubeflow.org/training-operator",
        barred=(_SCHEDULING,),
    ),
""",
        },
        files={
            "stack.yaml": _STACK.replace("ACCELERATOR", "h100") + "  muster:work: [ray, job, tfjob]\n",
            "job.yaml": _TFJOB,
        },
        command=("check", "job.yaml", "--stack", "stack.yaml", "--team", "vision"),
        answer="in all it asks for 16 GPUs of pool gpu, and queue default can hold at most 8 GPUs",
    ),
    Recipe(
        title="A key of the stack file",
        edits={
            ("muster/model/queues.py", "    further_namespaces: tuple"): (
                '    contact: str | None = declared("Whom to ask.", None, example="ann@example.com")\n'
            )
        },
        files={"stack.yaml": _STACK.replace("ACCELERATOR", "h100").replace("{quota", "{contact: a, quota")},
        command=("validate", "stack.yaml"),
        answer="stack.yaml: valid",
    ),
)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is edited in recipes."""
    copy = tmp_path_factory.mktemp("product")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in _PRODUCT:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    return copy


@pytest.mark.parametrize("recipe", _RECIPES, ids=lambda recipe: recipe.title)
def test_a_recipe_costs_what_its_page_says(recipe: Recipe, product: Path, tmp_path: Path) -> None:
    texts: dict[str, str] = {}
    for (file, place), added in recipe.edits.items():
        text = texts.get(file) or (product / file).read_text(encoding="utf-8")
        assert place in text, f"{file} has no {place!r}"
        head, found, tail = text.partition(place) if place else (text, "", "")
        texts[file] = f"{head}{added}{found}{tail}"

    _assert_performed(recipe, texts, product, tmp_path)


def test_a_scheduler_costs_what_its_page_says(product: Path, tmp_path: Path) -> None:
    """One that is Kueue under another name, so that every room of its own is there already."""
    recipe = Recipe(
        title="A scheduler",
        edits={},
        files={
            "stack.yaml": _STACK.replace("ACCELERATOR", "h100") + "  muster:scheduler: twin\n",
            "job.yaml": _JOB,
        },
        command=("check", "job.yaml", "--stack", "stack.yaml", "--team", "vision"),
        answer="in all it asks for 16 GPUs of pool gpu, and queue default can hold at most 8 GPUs",
    )
    originals = {
        str(path.relative_to(product)): path.read_text(encoding="utf-8")
        for pattern in ("*.py", "*.yaml")
        for path in (product / "muster").rglob(pattern)
    }
    twins = {name: _with_twin(name, text) for name, text in originals.items()}

    changed = {name: text for name, text in twins.items() if text != originals[name]}
    _assert_performed(recipe, changed, product, tmp_path)


def _with_twin(name: str, text: str) -> str:
    """A file with another row beside each that Kueue has in its tables by scheduler."""
    if name.endswith(".yaml"):
        return re.sub(
            r"(?m)^(schedulers:\n(?:[ #].*\n)*?)((?P<indent> +)kueue:.*\n(?:(?P=indent) .*\n|\n(?= ))*)",
            lambda found: found[1] + found[2] + found[2].replace("kueue:", "twin:", 1),
            text,
        )
    if "Scheduler.KUEUE" not in text:
        return text
    if name.endswith("model/schedulers.py"):
        text = text.replace('    KAI = "kai"\n', '    KAI = "kai"\n    TWIN = "twin"\n')
    lines = text.splitlines(keepends=True)
    tables = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Dict))
    rows = (
        (key.lineno - 1, key.col_offset, ast.get_source_segment(text, value))
        for table in tables
        for key, value in zip(table.keys, table.values, strict=True)
        if key is not None and ast.unparse(key) == "Scheduler.KUEUE"
    )
    for line, column, value in sorted(rows, reverse=True):
        lines[line] = f"{lines[line][:column]}Scheduler.TWIN: {value}, {lines[line][column:]}"
    return "".join(lines)


def _assert_performed(recipe: Recipe, texts: Mapping[str, str], product: Path, folder: Path) -> None:
    """The product with these files does for users what the recipe says, in as many files as its page says."""
    for name, text in recipe.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    originals = {file: (product / file).read_text(encoding="utf-8") for file in texts}
    before = _muster(product, folder, *recipe.command)
    try:
        _write(product, texts)
        after = _muster(product, folder, *recipe.command)
    finally:
        _write(product, originals)

    assert recipe.answer not in before, before
    assert recipe.answer in after, after
    assert len(texts) == _cost(recipe.title)


def _write(product: Path, texts: Mapping[str, str]) -> None:
    for file, text in texts.items():
        (product / file).write_text(text, encoding="utf-8")


def _muster(product: Path, folder: Path, *arguments: str) -> str:
    """What a command prints, by the copy of the product."""
    return subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(product), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def _cost(title: str) -> int:
    """How many files the page says that a recipe takes."""
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    said = re.search(rf"^## {re.escape(title)}\n(\w+) (?:file|line)", page, re.MULTILINE)
    assert said, f"docs/recipes.md does not begin {title!r} with its cost"
    return _COSTS.get(said[1]) or int(said[1])
