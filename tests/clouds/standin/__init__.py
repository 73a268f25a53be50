"""Stand-ins for the resource providers `gcp` and `aws`. Not the providers, and not a cloud.

- `sdk`, `google`, `amazon`: what the pinned SDKs and the clouds' own definitions say of an input.
- `table`, `tables/`: which field of which API each input of each resource is. What no table maps is refused.
- `judge`, `rules/`: every input against its definitions, and the documented rules that those do not carry.
- `cloud`, `faults`: what stands, how long it takes, what goes wrong.
- `provider`, `serve`: the engine's protocol around it.
"""
