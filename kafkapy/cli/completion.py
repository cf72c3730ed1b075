"""How the command line notices that a shell completes it."""

from typing import Final

COMPLETION: Final = "_KAFKAPY_COMPLETE"
"""An environment variable that is set while a shell completes a command line."""
