"""`python -m muster.controller manager|webhooks`: the runtime of `app` with the reconcilers of the stack's
scheduler and the reviews of `kueue`.
"""

import sys

from muster.controller import schedulers
from muster.controller.app import main
from muster.controller.kueue import setup

if __name__ == "__main__":
    sys.exit(main(register=schedulers.setup, webhooks=setup.webhooks))
