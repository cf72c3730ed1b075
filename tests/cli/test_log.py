"""``kafkapy log`` as a command line; what its commands do is in their own tests."""

from pathlib import Path

from tests.cli.conftest import Run


def test_the_options_reach_the_commands(run: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.index")
    for words in (
        ["dump", missing, "-r", "--decoder", "none", "--from-offset", "1", "--limit", "2", "--json"],
        ["verify", missing, "--headers-only", "--json"],
        ["repair", missing, "--whole", "--dry-run", "--yes", "--json"],
    ):
        ended = run("log", *words)
        assert ended.code == 1
        assert missing in ended.err
        assert ended.err.count("\n") == 1
