"""`muster ci`: helpers for CI pipelines."""
