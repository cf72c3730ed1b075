"""``kafkapy metadata`` as a command line; what its commands do is in ``test_metadata_run``."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("way", ["export", "import"])
def test_the_options_reach_the_command(run: Run, tmp_path: Path, way: str) -> None:
    words = ["--data", f"{tmp_path}/none", "--file", "f", "--overwrite", "--dry-run", "--json"]
    refused = run("metadata", way, *words)
    assert refused.code == 1
    assert refused.err == f"kafkapy: there is no data directory {tmp_path}/none: give it with --data\n"
