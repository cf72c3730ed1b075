"""The command line of ``kafkapy start``, which is parsed before the broker is imported."""

import subprocess
import sys

import pytest

from kafkapy.cli.start_options import parse


def test_options_and_settings_in_any_order() -> None:
    options = parse(["num.partitions=4", "--data", "d", "--port", "0", "log.retention.ms=-1", "--log-json"])
    assert options.settings == ["num.partitions=4", "log.retention.ms=-1"]
    assert (options.data, options.port, options.log_json, options.ephemeral) == ("d", 0, True, False)


@pytest.mark.parametrize("words", [["--port", "-1"], ["--port", "many"], ["--port", "65536"], ["--colour"]])
def test_invalid_arguments_end_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(words)
    assert stopped.value.code == 2
    assert "usage: kafkapy start" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--port", "-1"]])
def test_help_and_invalid_arguments_do_not_import_the_broker(words: list[str]) -> None:
    program = (
        "import sys\nfrom kafkapy.cli import main as cli\n"
        f"try:\n    cli.main(['start', *{words!r}])\nfinally:\n    print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    modules = set(result.stdout.split())
    assert "kafkapy.cli.start_options" in modules
    assert {"asyncio", "typer", "kafkapy.server.lifecycle.broker", "kafkapy.config.broker_keys"}.isdisjoint(modules)
