import pytest

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.password_encoder import EncoderSettings, decode_password, encode_password

SETTINGS = EncoderSettings("the secret", iterations=1024)


@pytest.mark.parametrize("password", ["", "a", "p" * 1000, "é€😀,:="])
@pytest.mark.parametrize("key_factory", ["PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA512"])
def test_a_password_comes_back(password: str, key_factory: str) -> None:
    stored = encode_password(SETTINGS._replace(key_factory=key_factory, key_length=256), password)
    assert password not in stored or len(password) < 2
    assert decode_password("the secret", stored) == password


def test_no_two_texts_of_a_password_are_the_same() -> None:
    assert encode_password(SETTINGS, "a") != encode_password(SETTINGS, "a")


@pytest.mark.parametrize(
    "changed",
    [
        {"key_factory": "PBKDF2WithHmacMD5"},
        {"cipher": "AES/GCM/NoPadding"},
        {"key_length": 8},
    ],
)
def test_algorithms_that_are_not_built_are_refused_by_the_key(changed: dict[str, object]) -> None:
    with pytest.raises(InvalidSecurityError, match=r"password\.encoder\."):
        encode_password(SETTINGS._replace(**changed), "a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encryptedPassword", "!"), ("encryptedPassword", ""), ("encryptedPassword", "AAAA"), ("passwordLength", "7"),
        ("passwordLength", "-1"), ("salt", "%"), ("initializationVector", "AAAA"), ("keyFactoryAlgorithm", "x"),
        ("cipherAlgorithm", "DES"), ("keyLength", "7"), ("keyLength", "x"), ("iterations", "0"),
        ("iterations", "99999999999"), ("iterations", "1025"),
    ],
)  # fmt: skip
def test_damaged_texts_are_refused_without_the_password(name: str, value: str) -> None:
    fields = dict(part.partition(":")[::2] for part in encode_password(SETTINGS, "hidden").split(","))
    text = ",".join(f"{key}:{each}" for key, each in {**fields, name: value}.items())
    with pytest.raises(InvalidSecurityError) as refused:
        decode_password("the secret", text)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "hidden", "salt:AAAA", ",,:", "encryptedPassword:AAAA,salt"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidSecurityError):
        decode_password("the secret", text)


def test_another_secret_decrypts_nothing() -> None:
    stored = encode_password(SETTINGS, "a password")
    with pytest.raises(InvalidSecurityError):
        decode_password("another secret", stored)
