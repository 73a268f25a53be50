"""The Kubernetes API as this program needs it: transport, typed partial objects, list and watch,
server-side apply.

Decides how to talk to the API server and what its answers mean. Leaves caching, queueing and leadership to
`muster.controller.runtime`, and every rule about gangs to `muster.controller.kueue`.
"""
