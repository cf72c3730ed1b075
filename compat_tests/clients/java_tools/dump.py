"""kafka-dump-log over files, and what in its output means trouble."""

import re
from collections.abc import Sequence
from pathlib import Path

from compat_tests.clients.java_tools.tools import Tools

TROUBLE = re.compile(
    r"Mismatches in|Missing|not sorted|Exception|not found|isvalid: false|invalid"
    r"|Found timestamp mismatch|Found out of order|Non-consecutive offsets|Error",
    re.IGNORECASE,
)
DUMPING = "Dumping /"
KEY = " key: "
CHUNK = 200


def dump(tools: Tools, paths: Sequence[Path], *options: str) -> str:
    """The output of the tool for the files, after a check that it found no damage and left no file out."""
    said = ""
    for first in range(0, len(paths), CHUNK):
        files = ",".join(map(str, paths[first : first + CHUNK]))
        out = tools.run("DumpLogSegments", "--files", files, *options, timeout_s=100)
        told = [line for line in out.splitlines() if not line.startswith(DUMPING)]  # a topic may have any name
        trouble = [line for line in told if TROUBLE.search(line.partition(KEY)[0])]  # so may a group
        assert not trouble, trouble[:5]
        said += out
    assert said.count(DUMPING) == len(paths)
    return said
