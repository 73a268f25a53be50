"""python -m examples.stories: writes the rendered.yaml of every story.

A test compares these files with the renderer's output, so a change of the renderer is visible in them line
by line.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from muster.config import load
from muster.render import queues

FOLDER: Final = Path(__file__).resolve().parent
STACK: Final = "stack.yaml"
RENDERED: Final = "rendered.yaml"
# The objects that a scheduler reads. Rights, networks and limits are the same in every story and left out.
_READ: Final = ("kueue.x-k8s.io/", "scheduling.run.ai/", "kai.scheduler/", "scheduling.k8s.io/")
# The stack before the pull request, in a story of one.
BEFORE: Final = "before.yaml"


def stories() -> list[Path]:
    """The folders of the stories."""
    return sorted(path.parent for path in FOLDER.glob(f"*/{STACK}"))


def rendered(story: Path) -> list[dict[str, Any]]:
    """What the story's stack comes to for its scheduler."""
    return [each for each in queues.objects(load(story / STACK)) if each["apiVersion"].startswith(_READ)]


def main() -> None:
    for story in stories():
        text = yaml.safe_dump_all(rendered(story), sort_keys=False, width=120)
        header = f"# Written by `python -m examples.stories` from {STACK}.\n---\n"
        (story / RENDERED).write_text(header + text, encoding="utf-8")
        print(story.name)


if __name__ == "__main__":
    main()
