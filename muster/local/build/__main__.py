"""`muster local build`: see everything.py."""

import sys

from muster.local.build.everything import main

if __name__ == "__main__":
    sys.exit(main())
