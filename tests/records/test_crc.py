"""The checksum, and the module that computes it."""

import subprocess
import sys
from importlib.machinery import ModuleSpec, PathFinder

from kafkapy.records.crc import crc32c, load

CHECK = b"123456789"
CRC = 0xE3069283
"""The CRC-32C of these digits in the catalogues of checksums."""


def test_the_crc_is_castagnolis() -> None:
    assert crc32c(CHECK) == CRC
    assert crc32c(CHECK[4:], crc32c(CHECK[:4])) == CRC


def test_the_package_is_used_if_its_extension_is_not_found() -> None:
    def nowhere(name: str, path: object = None) -> ModuleSpec | None:
        return None

    def package_alone(name: str, path: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name) if path is None else None

    for find in (nowhere, package_alone):
        assert load(find)(CHECK) == CRC


def test_the_extension_and_the_package_work_in_one_process() -> None:
    program = (
        "import sys, kafkapy.records.crc as ours\n"
        "assert 'importlib.metadata' not in sys.modules\n"
        "import crc32c\n"
        f"print(ours.crc32c({CHECK!r}), crc32c.crc32c({CHECK!r}))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [str(CRC)] * 2
