"""`python3 -m controller manager|webhooks`: the runtime of `app`, with the reconcilers and reviews of gang
admission.
"""

import sys

from controller import admission
from controller.app import main

if __name__ == "__main__":
    sys.exit(main(register=admission.setup, webhooks=admission.webhooks))
