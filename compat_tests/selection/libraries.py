"""Client libraries and codecs that tests use: tests of a library that is not installed are skipped, with its name."""

import re

PACKAGES = {
    "aiokafka": "aiokafka",
    "confluent_kafka": "confluent-kafka",
    "kafka": "kafka-python",
    "kazoo": "kazoo",
    "kio": "kio",
    "lz4": "lz4",
    "psutil": "psutil",
    "pyspark": "pyspark",
    "snappy": "python-snappy",
    "xxhash": "xxhash",
    "zstandard": "zstandard",
}
"""The package to install for each module."""


def why_not_imported(error: str) -> str:
    """Why a test can't run whose import ended in this error, on one line; "" when no library is missing."""
    found = re.search(r"ModuleNotFoundError: (?:No module named|import of) '?(\w+)", error)
    package = PACKAGES.get(found[1]) if found is not None else None
    return f"{package} is not installed here (pip install {package})" if package is not None else ""
