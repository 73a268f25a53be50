"""The sections of a stack's report, each with the weight that decides what is left out of a long comment.

Each takes the StackDiff, and yields nothing where there is nothing to show.
"""
