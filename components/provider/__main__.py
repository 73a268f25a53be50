"""The plugin `muster-components`, as the engine starts it for a folder with a PulumiPlugin.yaml.

The engine runs it with the Python on PATH. Muster is in the virtual environment that this folder is installed
in, or in that of the checkout: the Python there takes over. Python puts this folder first on its path, so it
must hold no other module.
"""

import os
import sys
from pathlib import Path


def environment() -> Path | None:
    """The virtual environment that this folder belongs to."""
    for folder in Path(__file__).resolve().parents:
        for candidate in (folder, folder / ".venv"):
            if (candidate / "pyvenv.cfg").is_file():
                return candidate
    return None


if __name__ == "__main__":
    found = environment()
    if found is not None and found.resolve() != Path(sys.prefix).resolve():
        python = str(found / "bin" / "python")
        os.execv(python, [python, *sys.argv])  # noqa: S606 - the engine ends this process, so it stays one

    from muster.components.multilanguage.host import main

    main()
