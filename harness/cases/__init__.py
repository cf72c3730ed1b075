"""Cases that `tests` runs on kafkapy inside its process, and `compat_tests` on real brokers and ZooKeepers."""

from pathlib import Path
from typing import Final

RECORDED: Final = Path(__file__).parent / "answers"
"""The answers of Apache Kafka 2.7.2, as JSON; `compat_tests` has the programs that record them."""
