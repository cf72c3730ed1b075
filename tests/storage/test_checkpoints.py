from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import OffsetCheckpoint, decode
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.types import TopicPartition

NAMES = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]


@pytest.mark.parametrize("name", [*NAMES, "cleaner-offset-checkpoint"])
def test_real_kafkas_checkpoints_parse_and_encode_the_same(tmp_path: Path, name: str) -> None:
    offsets = OffsetCheckpoint(Files(), str(GOLDEN / name)).read()
    copy = OffsetCheckpoint(Files(), str(tmp_path / "c"))
    copy.write(offsets)
    assert (tmp_path / "c").read_bytes() == (GOLDEN / name).read_bytes()
    assert copy.read() == offsets


def test_the_known_line_is_read() -> None:
    offsets = OffsetCheckpoint(Files(), str(GOLDEN / "replication-offset-checkpoint")).read()
    assert offsets[TopicPartition("seg", 0)] == 204


def test_none_is_empty(tmp_path: Path) -> None:
    assert OffsetCheckpoint(Files(), str(tmp_path / "missing")).read() == {}
    assert decode(b"", 3) == []


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe", b"0\nx\n",
     b"0\n1\na 0 1_0\n", b"0\n1\na 0 %d\n" % 2**63, b"0\n1\na 0 " + b"9" * 5000, b"0\n%d\na 0 1\n" % 10**30],
)  # fmt: skip
def test_anything_else_is_malformed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(MalformedCheckpointError, match="is not an offset checkpoint"):
        OffsetCheckpoint(Files(), str(tmp_path / "c")).read()
