"""The commands of `muster`, one module each; `muster.cli` explains how to add one."""
