"""The programs that the cluster has: its scheduler stays as it is, KubeRay stays if it is there.

Responsible for the keys of the stack. What an existing program has to be is judged by
components/existing_programs.py, as in `pulumi up`.
"""

from typing import Any, Final

from muster.adopt.cluster import LiveCluster
from muster.adopt.findings import Findings
from muster.components.existing_programs import IncompatibleProgramError, refuse
from muster.model.programs import PLACEMENTS, Program
from muster.model.stack import Scheduler

_EFFECT: Final = "`pulumi up` refuses until then; nothing is written before"


def to_programs(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """`muster:kuberay`, where the cluster has it."""
    kuberay = bool(live.programs.get(Program.KUBERAY))
    scheduler = Program.KAI if live.scheduler is Scheduler.KAI else Program.KUEUE
    for program, installs in ((scheduler, False), (Program.KUBERAY, not kuberay)):
        try:
            refuse(program, live.programs.get(program, ()), installs=installs)
        except IncompatibleProgramError as error:
            findings.lost(PLACEMENTS[program].title, "Deployment", str(error), _EFFECT)
    if not kuberay:
        reason = "the cluster has no KubeRay, which every stack of Muster's needs."
        findings.reworded("KubeRay", "Deployment", reason, "the first `pulumi up` installs it in ray-system")
    return {"kuberay": {"install": False}} if kuberay else {}
