"""Starts the policy pack. The engine runs this folder as a program, not as a module of `muster`."""

import sys
from pathlib import Path


def main() -> None:
    # The engine puts this folder first on sys.path. Its parent takes that place: in a checkout `muster` is
    # found there, and modules of this folder (images, versions) no longer hide installed ones of the same
    # name.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from pulumi_policy import PolicyPack

    from muster.policies.pack import policies

    PolicyPack(name="muster", policies=[*policies()])


main()
