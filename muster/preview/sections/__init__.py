"""The parts of a stack's report, each with what makes it worth its place.

A module has `sections(told)` or functions like it, which yield nothing where there is nothing to tell.
"""
