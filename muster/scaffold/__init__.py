"""Writes a project of one's own and compares it with the templates of a newer version: `muster init`."""
