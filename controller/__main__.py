"""`python3 -m controller manager|webhooks`: the runtime of `app` with the reconcilers and reviews of
`admission`.
"""

import sys

from controller.admission import wiring
from controller.app import main

if __name__ == "__main__":
    sys.exit(main(register=wiring.setup, webhooks=wiring.webhooks))
