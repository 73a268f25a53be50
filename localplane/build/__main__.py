"""`python -m localplane.build`: see everything.py."""

import sys

from localplane.build.everything import main

if __name__ == "__main__":
    sys.exit(main())
