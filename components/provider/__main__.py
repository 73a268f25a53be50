"""The plugin `muster-components`, as the engine starts it for a folder with a PulumiPlugin.yaml.

Python puts this folder first on its path, so it must hold no other module.
"""

from muster.components.multilanguage.host import main

if __name__ == "__main__":
    main()
