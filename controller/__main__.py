"""`python3 -m controller manager|webhooks`: the runtime of `app`, with the reconcilers and reviews of this
program.
"""

import sys
from collections.abc import Sequence
from typing import Any

from controller.app import main
from controller.runtime.manager import Manager
from controller.runtime.review import Webhook


def register(manager: Manager) -> None:
    """The reconcilers of the manager."""


def webhooks(manager: Manager) -> Sequence[Webhook[Any]]:
    """The reviews of the webhook server, which may read caches of `manager`."""
    return ()


if __name__ == "__main__":
    sys.exit(main(register=register, webhooks=webhooks))
