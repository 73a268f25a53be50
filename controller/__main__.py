"""`python3 -m controller manager|webhooks`: the runtime of `app` with the reconcilers of the stack's
scheduler and the reviews of `admission`.
"""

import sys

from controller import schedulers
from controller.admission import wiring
from controller.app import main

if __name__ == "__main__":
    sys.exit(main(register=schedulers.setup, webhooks=wiring.webhooks))
