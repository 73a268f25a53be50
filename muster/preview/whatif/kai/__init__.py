"""What-if for stacks that KAI schedules: KAI's own scheduler decides, in the player of KAI.

schedulers.py   the configuration of each of KAI's schedulers
work.py         pod groups and pods of the snapshot, as the API server has them
world.py        one side as the player reads it
simulate.py     one side, from its world to its outcome: nodes of the snapshot and of the pools, queues with
                the times by which KAI protects work in them
report.py       base and head compared, or what is known where nothing can be simulated
"""

from muster.preview.whatif.kai.report import to_json, to_report, undecided_json, undecided_report
from muster.preview.whatif.kai.simulate import simulate, why_undecided

__all__ = ["simulate", "to_json", "to_report", "undecided_json", "undecided_report", "why_undecided"]
