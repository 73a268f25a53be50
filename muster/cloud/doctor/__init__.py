"""Preflight checks before the first `up` of a stack. Nothing is changed."""
