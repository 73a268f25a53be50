"""The status of one job, from API objects alone.

    job_status.fetch_status(api, namespace, name) -> JobStatus
    job_status.fetch_waiting(api, namespace)      -> JobStatus of all that waits
    pods.pod_status(pods, expected)               -> what keeps pods from running
    format.format_status(status, now=...)         -> text for a person

The reasons for waiting are the messages that Kueue and the gang-admission controller wrote on the Workload.
They are shown unchanged, so that `muster why`, the Events and the dashboards agree.
"""
