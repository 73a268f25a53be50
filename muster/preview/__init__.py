"""What a pull request changes, for whom.

    changes.compare(base, head)  two Stacks -> Changes: quotas, borrowing, preemption, pools, settings
    plan.read(path)              the JSON of `pulumi preview --json` -> Plan: resources, errors
    report.write(...)            both -> Report, which markdown.py and page.py turn into bytes

    snapshot.take(api)           what stands in the queues of a live cluster

`muster --help` lists the commands.
"""
