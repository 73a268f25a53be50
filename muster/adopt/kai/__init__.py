"""Reads the queues of a cluster that runs KAI as a stack with `muster:scheduler: kai`.

kinds.KINDS                    what is read, and compared with what the stack renders
values.to_values(live, ...)    the keys of the stack file that say them
"""
