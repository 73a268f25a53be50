"""The commands of `muster record`."""
