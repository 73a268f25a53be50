"""Started by the engine in this folder: `python -m pulumi.policy` runs it as a program, not as part of a
package.
"""

import sys
from pathlib import Path


def main() -> None:
    # In the place of this folder, whose modules would go before others of the same name.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from pulumi_policy import PolicyPack

    from muster.policies.pack import policies

    PolicyPack(name="muster", policies=[*policies()])


main()
