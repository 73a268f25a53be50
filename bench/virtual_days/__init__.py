"""The controller through virtual days of faults: `python -m bench.virtual_days --days 30`.

The controller's own loop, queue, caches and writes run on virtual time, before stand-ins for the API server,
Kueue, a cloud with stock, and the jobs. Tenants come and go, pools are empty or silent, nodes die,
networks part, the controller is killed.
"""
