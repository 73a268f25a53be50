"""Reproducible load runs and their results."""
