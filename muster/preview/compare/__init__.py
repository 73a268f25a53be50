"""Computes what a change of a stack means. The result is one object, which every output format reads.

    diff.compare(base, head)         two Stacks -> Changes: quotas, borrowing, preemption, pools, settings
    diff.diff_stack(name, ...)       two loaded sides, prices and a snapshot -> StackDiff

Pure: nothing here reads a file or a cluster, or chooses words.
"""
