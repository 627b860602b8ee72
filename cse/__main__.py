"""`python -m cse` runs the command `cse` under the Python of your choice; `cse launch` starts drivers this way."""

import sys

from cse.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
