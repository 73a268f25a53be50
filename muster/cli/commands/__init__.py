"""The commands of `muster`, one module each; `muster.cli` says how to add one."""
