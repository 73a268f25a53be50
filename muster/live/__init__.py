"""Reads a running cluster: API access, a snapshot of its queues, the status of one job."""
