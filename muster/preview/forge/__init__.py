"""Where pull requests live: GitHub and GitLab.

target.detect_target(environment)  the pull request that this job runs for
notes.upsert(forge, ...)           creates or updates the one comment
summary.write_summary(...)         where the report goes without the right to comment
"""
