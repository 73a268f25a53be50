"""Where a job stands, from the API objects alone.

    standing.read(api, namespace, name, ...) -> Standing
    words.text(standing, now=...)            -> what a person reads

The words of waiting are those that Kueue and the gang-admission controller wrote on the Workload: they are
told as they are, so that `why`, the Events and the dashboards say the same.
"""
