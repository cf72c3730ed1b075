import asyncio
import logging
from collections.abc import Mapping

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.stored_passwords import StoredPasswords

NAME = "listener.name.ssl.ssl.key.password"
PLAIN = {NAME: "hidden", "num.io.threads": "9", "unknown": "x"}


def _passwords(**secrets: str) -> StoredPasswords:
    keys = {f"password.encoder.{name.replace('__', '.')}": value for name, value in secrets.items()}
    return StoredPasswords(BrokerConfig.from_properties({"password.encoder.iterations": "1024"} | keys))


def _encrypted(passwords: StoredPasswords, overrides: Mapping[str, str]) -> dict[str, str]:
    return asyncio.run(passwords.encrypted(overrides))


def _decrypted(passwords: StoredPasswords, overrides: Mapping[str, str]) -> dict[str, str]:
    return asyncio.run(passwords.decrypted(overrides))


def test_passwords_alone_are_encrypted() -> None:
    stored = _encrypted(_passwords(secret="s"), PLAIN)
    assert stored | {NAME: ""} == PLAIN | {NAME: ""}
    assert "hidden" not in stored[NAME]
    assert _decrypted(_passwords(secret="s"), stored) == PLAIN


def test_the_old_secret_decrypts_until_all_is_encrypted_anew() -> None:
    stored = _encrypted(_passwords(secret="s"), PLAIN)
    later = _passwords(secret="t", old__secret="s")
    assert _decrypted(later, stored) == PLAIN
    assert asyncio.run(later.needs_new_secret(stored))
    assert not asyncio.run(later.needs_new_secret(_encrypted(later, PLAIN)))
    assert not asyncio.run(_passwords(secret="t").needs_new_secret(stored))


@pytest.mark.parametrize("secrets", [{}, {"secret": "other"}, {"secret": "other", "old__secret": "older"}])
def test_a_password_that_no_secret_decrypts_is_left_out(
    secrets: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    stored = _encrypted(_passwords(secret="s"), PLAIN)
    assert _decrypted(_passwords(**secrets), stored) == {name: text for name, text in PLAIN.items() if name != NAME}
    assert f"The stored {NAME} is not applied" in caplog.text
    assert "hidden" not in caplog.text


def test_an_algorithm_that_is_not_built_is_refused_by_its_key() -> None:
    with pytest.raises(InvalidConfigError, match="cipher"):
        _encrypted(_passwords(secret="s", cipher__algorithm="DES"), PLAIN)
