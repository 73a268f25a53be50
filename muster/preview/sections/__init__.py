"""The sections of a stack's report, each with the weight that decides what is left out of a long comment.

Each module has `sections(diff)`, which yields nothing where there is nothing to show.
"""
