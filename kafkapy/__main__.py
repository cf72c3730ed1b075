"""``python -m kafkapy`` is the ``kafkapy`` command."""

import sys

from kafkapy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
