"""Where pull requests live: GitHub and GitLab.

target.here(environment)   which of them this job runs for, or None
notes.upsert(forge, ...)  the one comment, created or brought up to date
summary.write(...)        where the report goes when nobody may comment
"""
