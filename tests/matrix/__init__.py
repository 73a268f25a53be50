"""Suites on several versions of Kubernetes, and the page that shows what came of it.

    python -m tests.matrix                         every version that can be built, every suite
    python -m tests.matrix --kubernetes 1.36 --suite tenancy
    python -m tests.matrix.page docs/reference/support.md

Responsible for what is run and recorded (results.json). A suite that fails is recorded as it is, and is no
reason to stop.
"""
