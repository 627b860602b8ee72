"""`python -m cse` runs the command `cse` under the Python of your choice; `cse launch` starts drivers this way."""

import sys
from pathlib import Path

# Python looks first in the folder where the command is given, which may have an `analysis` of its own.
sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from cse.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
