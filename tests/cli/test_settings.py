"""Options, settings and file are merged into one configuration; errors say what to do."""

from pathlib import Path

import pytest

from kafkapy.cli.settings import UsageError, build_config, nearest_key, parse_settings, read_file
from kafkapy.config.errors import InvalidConfigError


def test_settings_win_over_options_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.dirs=/from/file\nlisteners=PLAINTEXT://:1\nbroker.rack=köln\n")
    config = build_config(file=str(file), data="/from/option", port=2, settings=["num.partitions=3"])
    assert config["num.partitions"] == 3
    assert config.log_dirs == ("/from/option",)
    assert str(config.listeners[0]) == "PLAINTEXT://127.0.0.1:2"
    assert config["broker.rack"] == "köln"
    assert config["group.initial.rebalance.delay.ms"] == 3000


def test_the_initial_rebalance_delay_is_0_without_a_config_file() -> None:
    config = build_config(file=None, data=None, port=None, settings=[])
    assert config["group.initial.rebalance.delay.ms"] == 0
    again = build_config(file=None, data=None, port=None, settings=["group.initial.rebalance.delay.ms=5"])
    assert again["group.initial.rebalance.delay.ms"] == 5


def test_a_relative_data_directory_is_relative_to_where_the_command_runs() -> None:
    config = build_config(file=None, data="data", port=None, settings=[])
    assert config.log_dirs == (str(Path.cwd() / "data"),)


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no configuration key 'num\.partition'; did you mean 'num\.partitions'\?"):
        parse_settings(["num.partition=3"])
    assert nearest_key("zzzzzz") == ""


def test_a_setting_needs_an_equals_sign_and_may_contain_more() -> None:
    assert parse_settings(["broker.rack=a=b"]) == {"broker.rack": "a=b"}
    with pytest.raises(UsageError, match=r"'broker\.rack' is no setting: write key=value"):
        parse_settings(["broker.rack"])


def test_an_unknown_key_in_a_file_is_kept_for_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=2\n")
    assert build_config(file=str(file), data=None, port=None, settings=[]).unknown == ("num.partition",)


def test_a_bad_value_names_its_key() -> None:
    with pytest.raises(InvalidConfigError, match=r"Invalid value many for configuration num\.partitions: Not a number"):
        build_config(file=None, data=None, port=None, settings=["num.partitions=many"])


@pytest.mark.parametrize(
    ("content", "problem"), [(b"a=\xff", "it is not UTF-8"), (b"a=\\u12", "four hexadecimal digits"), (None, "No such")]
)
def test_a_file_that_can_not_be_read(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=problem) as refused:
        read_file(str(file))
    assert str(file) in str(refused.value)
