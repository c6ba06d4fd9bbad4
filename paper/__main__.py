"""``python -m paper``, from the root of the repository."""

import sys

from .command_line import main

if __name__ == "__main__":
    sys.exit(main())
