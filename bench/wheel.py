"""The wheel of this checkout, and an empty environment to install it into."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_TIMEOUT: Final = 900


def build_wheel(folder: Path) -> Path:
    """Build the wheel in `folder`, by way of the sdist, and from the files that git knows or would add. The
    build's own files stay out of the checkout.
    """
    tree = folder / "tree"
    _copy(tree)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    shutil.rmtree(tree)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _copy(tree: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, tree / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def make_environment(folder: Path) -> Path:
    """An empty virtual environment with pip; its Python."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, *requirements: str, constraints: Path) -> None:
    """Install with pip and its cache, where it has one."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", str(constraints), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
