"""Entry point of ``python -m sparseklr``, which is the same as the command ``sparseklr``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
