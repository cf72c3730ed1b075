"""Passwords in the dynamic configuration, encrypted in Apache Kafka's form (``kafka.utils.PasswordEncoder``).

The text has fields ``name:value``, separated by commas: the ciphertext and its parameters. The key is derived from
``password.encoder.secret`` by PBKDF2, with a random salt for each password; the cipher is AES in CBC mode.
"""

import hashlib
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.security.errors import InvalidSecurityError, needs_extra

CIPHER: Final = "AES/CBC/PKCS5Padding"
_HASHES: Final = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA224": "sha224",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA512": "sha512",
}
DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
KEY_LENGTHS: Final = (128, 192, 256)
MOST_ITERATIONS: Final = 1_000_000
"""More would take seconds; what the broker stores itself has ``password.encoder.iterations``."""
_SALT_SIZE: Final = 256
_BLOCK_BITS: Final = 128


class EncoderSettings(NamedTuple):
    """The keys ``password.encoder.*``."""

    secret: str
    key_factory: str = DEFAULT_KEY_FACTORY
    cipher: str = CIPHER
    key_length: int = 128
    iterations: int = 4096


def check_settings(settings: EncoderSettings) -> None:
    """Raise InvalidSecurityError for an algorithm that is not built."""
    if settings.key_factory not in _HASHES:
        raise InvalidSecurityError(f"password.encoder.keyfactory.algorithm: write one of {', '.join(_HASHES)}")
    if settings.cipher != CIPHER:
        raise InvalidSecurityError(f"password.encoder.cipher.algorithm: kafkapy has {CIPHER} alone")
    if settings.key_length not in KEY_LENGTHS:
        raise InvalidSecurityError("password.encoder.key.length: AES has keys of 128, 192 and 256 bits")


def encode_password(settings: EncoderSettings, password: str) -> str:
    """Encrypt a password; raises InvalidSecurityError for settings that are not built."""
    check_settings(settings)
    salt, vector = secrets.token_bytes(_SALT_SIZE), secrets.token_bytes(_BLOCK_BITS // 8)
    key = _key(settings.secret, settings.key_factory, salt, settings.iterations, settings.key_length)
    fields = {
        "encryptedPassword": b64encode(_encrypted(key, vector, password.encode())).decode(),
        "passwordLength": str(_java_length(password)),
        "salt": b64encode(salt).decode(),
        "initializationVector": b64encode(vector).decode(),
        "keyFactoryAlgorithm": settings.key_factory,
        "cipherAlgorithm": settings.cipher,
        "keyLength": str(settings.key_length),
        "iterations": str(settings.iterations),
    }
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decode_password(secret: str, text: str) -> str:
    """Decrypt what ``encode_password`` or Apache Kafka has made; raises InvalidSecurityError."""
    fields = dict(part.partition(":")[::2] for part in text.split(","))
    try:
        salt, vector, data = (_bytes(fields, name) for name in ("salt", "initializationVector", "encryptedPassword"))
        key_length, iterations, length = (
            _number(fields, name) for name in ("keyLength", "iterations", "passwordLength")
        )
        key_factory = fields["keyFactoryAlgorithm"]
        if key_factory not in _HASHES or fields["cipherAlgorithm"] != CIPHER or key_length not in KEY_LENGTHS:
            raise InvalidSecurityError("the password is encrypted by an algorithm that kafkapy has not")
        if not 0 < iterations <= MOST_ITERATIONS:
            raise InvalidSecurityError(f"the password has no number of iterations up to {MOST_ITERATIONS}")
        password = _decrypted(_key(secret, key_factory, salt, iterations, key_length), vector, data).decode()
    except (KeyError, ValueError) as error:
        if isinstance(error, InvalidSecurityError):
            raise
        raise InvalidSecurityError("the password is not one that password.encoder.secret has encrypted") from None
    if _java_length(password) != length:
        raise InvalidSecurityError("the password is not one that password.encoder.secret has encrypted")
    return password


def _bytes(fields: Mapping[str, str], name: str) -> bytes:
    try:
        return b64decode(fields[name], validate=True)
    except Base64Error as error:
        raise ValueError(name) from error


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields[name]
    if not text.isascii() or not text.isdigit():
        raise ValueError(name)
    return int(text)


def _key(secret: str, key_factory: str, salt: bytes, iterations: int, key_length: int) -> bytes:
    return hashlib.pbkdf2_hmac(_HASHES[key_factory], secret.encode(), salt, iterations, key_length // 8)


def _java_length(text: str) -> int:
    """Units of UTF-16, as ``String.length``."""
    return len(text.encode("utf-16-le")) // 2


def _encrypted(key: bytes, vector: bytes, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.padding import PKCS7
    except ImportError:
        raise needs_extra("password.encoder.secret") from None
    padder, encryptor = PKCS7(_BLOCK_BITS).padder(), Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()


def _decrypted(key: bytes, vector: bytes, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.padding import PKCS7
    except ImportError:
        raise needs_extra("password.encoder.secret") from None
    decryptor, unpadder = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor(), PKCS7(_BLOCK_BITS).unpadder()
    return unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()
