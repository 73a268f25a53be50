"""Compares two stacks: quotas, borrowing, preemption, pools and settings."""
