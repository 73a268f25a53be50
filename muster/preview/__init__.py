"""Shows what a pull request changes, and for whom.

inputs.load_inputs(...)      loads both sides and compares them -> StackDiff, one a stack
compare/                     the comparison: pure, and the only place that computes anything
banner.to_banner(...)        the line that a reviewer decides on, the same in every format
report.to_report(...)        StackDiff -> Report, which html.py and markdown.py write
json_report.to_json(...)     StackDiff -> JSON
failing.failures(...)        what `muster diff --fail-on` fails on
validate.check_file(path)    the mistakes of one stack file
whatif/                      simulates running and pending work with the real Kueue
forge/                       the comment on GitHub and GitLab
"""
