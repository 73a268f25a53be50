"""The program: it makes what stacks/Pulumi.<stack>.yaml describes."""

from muster.components.entrypoint import run

run()
