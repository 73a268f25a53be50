"""Reads a cluster that runs Kueue or KAI already, and writes the stack file that means the same.

    fetch_cluster(api)        what is there: queues, flavors, checks, priorities, nodes, programs
    to_stack_file(live, ...)  the values of the stack file, and what no stack can express
    format_stack_file(...)    its text, with comments
    compare_objects(...)      what the first `pulumi up` would do to each object

Nothing is written to the cluster.
"""
