"""Walk-throughs that users of this field know, as stacks and as work of their teams (README.md tells them).

A folder is a story: `stack.yaml` is its stack, `rendered.yaml` what the stack comes to for the scheduler, and
every other file the work of a team; in a story of a pull request `before.yaml` is the stack before it.
"""
