"""`python -m cse`: the command `cse` with a Python of one's choice; `cse launch` starts drivers so."""

import sys

from cse.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
