"""Reports that an update runs, and ends once the file in HELD_UNTIL is there."""

import os
import time
from pathlib import Path

Path(os.environ["HELD_RUNS"]).touch()
while not Path(os.environ["HELD_UNTIL"]).exists():
    time.sleep(0.05)
