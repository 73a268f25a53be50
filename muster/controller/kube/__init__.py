"""The Kubernetes API as this program needs it: transport, typed partial objects, list and watch,
server-side apply.

Responsible for how to talk to the API server and what its answers mean. Caching, queueing and leadership are
`muster.controller.runtime`'s; rules about gangs are not here.
"""
