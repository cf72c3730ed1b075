"""The page on the formats explains every byte that Apache Kafka 2.7.2 wrote, and every byte that we write.

``tests/golden/formats-272`` is made by ``compat_tests/storage/make_golden.py``, which says what is in it.
"""

from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN, batch
from harness.storage.format_page import Page, check_directory
from harness.storage.partition import written

FORMATS = GOLDEN.parent / "formats-272"


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


def test_the_page_explains_what_kafka_wrote_with_everything_in_it(page: Page) -> None:
    counts = check_directory(page, FORMATS)
    codecs = {f"message set entry {magic}, codec {codec}" for magic in (0, 1) for codec in range(4)}
    codecs |= {f"record batch, codec {codec}" for codec in range(5)}
    others = {".index", ".timeindex", ".txnindex", "producer", "header", "abort", "commit"}
    others |= {f"{name}-offset-checkpoint" for name in ("cleaner", "log-start", "recovery-point", "replication")}
    assert codecs | others <= {name for name, count in counts.items() if count}


def test_the_page_explains_a_broker_of_a_cluster(page: Page) -> None:
    counts = check_directory(page, GOLDEN)
    assert counts["producer"] == 5
    assert counts["record batch, codec 0"] > 100


def test_the_page_explains_what_we_write(page: Page, tmp_path: Path) -> None:
    written(tmp_path)
    counts = check_directory(page, tmp_path)
    assert all(counts[name] for name in (".index", ".timeindex", ".txnindex", "producer", "abort", "commit"))


def test_bytes_that_the_page_does_not_explain_fail(page: Page, tmp_path: Path) -> None:
    folder = written(tmp_path)
    log = sorted(folder.glob("*.log"))[0]
    content = log.read_bytes()
    for changed, said in (
        (bytes(batch(1))[:-1] + b"x", "CRC"),
        (bytes(batch(1))[:-1], "goes beyond the file"),
    ):
        log.write_bytes(content + changed)
        with pytest.raises(AssertionError, match=said):
            check_directory(page, tmp_path)
    log.write_bytes(content)
    (folder / "stranger").write_bytes(b"")
    with pytest.raises(AssertionError, match="stranger"):
        check_directory(page, tmp_path)


def test_every_file_that_goes_or_comes_has_its_name(page: Page) -> None:
    for name in ("00000000000000000007.log.deleted", "00000000000000000007.index.swap", "leader-epoch-checkpoint.tmp"):
        assert page.explains("Names in a partition", name)
    folder = f"t-0.{'0' * 32}"
    assert page.explains("Names in a data directory", f"{folder}-delete")
    assert page.explains("Names in a data directory", f"{folder}-future")
    assert not page.explains("Names in a data directory", "folder")
