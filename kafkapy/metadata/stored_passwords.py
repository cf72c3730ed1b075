"""Passwords among a broker's overrides: encrypted in the store, as Apache Kafka stores them, and plain elsewhere."""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import broker_key
from kafkapy.config.errors import InvalidConfigError
from kafkapy.security.errors import InvalidSecurityError

if TYPE_CHECKING:
    from kafkapy.security.password_encoder import EncoderSettings

SECRET: Final = "password.encoder.secret"  # noqa: S105  # the name of a key
OLD_SECRET: Final = "password.encoder.old.secret"  # noqa: S105  # the name of a key

logger: Final = logging.getLogger(__name__)


class StoredPasswords:
    """Encrypts and decrypts with the secrets of a configuration. Derived keys take time, which a thread has."""

    __slots__ = ("_config",)

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    async def encrypted(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides as they are stored; raises InvalidConfigError."""
        found = dict(overrides)
        for name in _passwords(overrides):
            from kafkapy.security.password_encoder import encode_password

            try:
                found[name] = await asyncio.to_thread(encode_password, self._settings(), overrides[name])
            except InvalidSecurityError as error:
                raise InvalidConfigError(str(error)) from error
        return found

    async def decrypted(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides as they apply; a password that the secrets do not decrypt is left out, and logged."""
        found = dict(overrides)
        for name in _passwords(overrides):
            password = await self._decrypted(name, overrides[name])
            if password is None:
                del found[name]
            else:
                found[name] = password
        return found

    async def needs_new_secret(self, overrides: Mapping[str, str]) -> bool:
        """Whether a password is encrypted with ``password.encoder.old.secret``."""
        secret, old = self._config.text(SECRET), self._config.text(OLD_SECRET)
        if not secret or not old:
            return False
        for name in _passwords(overrides):
            try:
                await _decode(secret, overrides[name])
            except InvalidSecurityError:
                return True
        return False

    async def _decrypted(self, name: str, text: str) -> str | None:
        error: InvalidSecurityError | None = None
        for secret in (self._config.text(SECRET), self._config.text(OLD_SECRET)):
            if secret:
                try:
                    return await _decode(secret, text)
                except InvalidSecurityError as refused:
                    error = error or refused
        logger.error("The stored %s is not applied: %s", name, error or f"{SECRET} is not set")
        return None

    def _settings(self) -> "EncoderSettings":
        from kafkapy.security.password_encoder import DEFAULT_KEY_FACTORY, EncoderSettings

        config = self._config
        return EncoderSettings(
            config.text(SECRET),
            config.text("password.encoder.keyfactory.algorithm") or DEFAULT_KEY_FACTORY,
            config.text("password.encoder.cipher.algorithm"),
            config.integer("password.encoder.key.length"),
            config.integer("password.encoder.iterations"),
        )


async def _decode(secret: str, text: str) -> str:
    from kafkapy.security.password_encoder import decode_password

    return await asyncio.to_thread(decode_password, secret, text)


def _passwords(overrides: Mapping[str, str]) -> list[str]:
    return [name for name in overrides if (key := broker_key(name)) is not None and key.sensitive]
