"""What admission answers to a team's work, and where it could run: offline, from the stack alone.

    manifests.py  files -> objects, with YAML as kubectl reads it
    policies.py   CEL of the policies, by Google's runtime
    admission.py  one object -> what admission fills in, warns of and refuses
    definitions.py  names and types of fields, by the pinned definitions, and what --fix writes
    demands.py    what an object asks for, and which pools could give it
    report.py     the result as text and as JSON

The rules are those of the cluster: the rendered ValidatingAdmissionPolicies and the functions of the
webhooks. Not evaluated are quotas of objects.
"""
