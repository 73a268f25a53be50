"""Well-known walk-throughs of this field as stacks and as work of their teams (described in README.md).

Each folder has `stack.yaml`, its manifests for the scheduler in `rendered.yaml`, and the work of the teams
in the other files. The story of a pull request has the stack before it in `before.yaml`.
"""
