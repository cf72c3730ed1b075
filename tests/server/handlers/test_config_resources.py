"""Functions that the configuration handlers share; the handlers' tests cover them in full."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.config.errors import InvalidAlterationError
from kafkapy.protocol.constants import ResourceType
from kafkapy.server.handlers.shared.config_resources import (
    MAX_STORED_BYTES,
    MOST_KEYS,
    check_number_of_keys,
    check_size,
    check_types,
    error_text,
    last_of_each,
)


def _resources(*types: int, name: str = "x") -> Any:
    return [SimpleNamespace(resource_type=each, resource_name=name) for each in types]


def test_only_the_three_resource_types_are_accepted() -> None:
    asyncio.run(check_types(_resources(*ResourceType)))
    with pytest.raises(InvalidAlterationError, match="There is no resource type 3"):
        asyncio.run(check_types(_resources(2, 3)))


def test_of_repeated_resources_the_last_counts() -> None:
    first, other, last = _resources(2, 4, 2)
    assert asyncio.run(last_of_each([first, other, last])) == [last, other]


def test_a_long_name_does_not_make_a_long_message() -> None:
    assert len(error_text(InvalidAlterationError("x" * 32_767))) < 1_100


def test_the_number_of_keys_is_bounded() -> None:
    check_number_of_keys(MOST_KEYS)
    with pytest.raises(InvalidAlterationError, match="1001 keys of one resource are altered, more than 1000"):
        check_number_of_keys(MOST_KEYS + 1)


@pytest.mark.parametrize(("character", "size"), [("v", 1), ("\u00fc", 2), ("\x01", 6)])
def test_the_bytes_of_stored_overrides_are_bounded(character: str, size: int) -> None:
    fits = character * ((MAX_STORED_BYTES - 100) // size)
    check_size({}, {"key": fits})
    for text in (fits + "v" * 100, "v" * 2 * MAX_STORED_BYTES):
        with pytest.raises(InvalidAlterationError, match="more than 1000000 bytes"):
            check_size({"key": "v"}, {"key": text})


def test_overrides_beyond_the_bound_may_become_smaller_only() -> None:
    before = {"key": "v" * 2 * MAX_STORED_BYTES}
    check_size(before, {"key": "v" * (2 * MAX_STORED_BYTES - 1)})
    for text in ("v" * 2 * MAX_STORED_BYTES, "\x01" * MAX_STORED_BYTES):
        with pytest.raises(InvalidAlterationError):
            check_size(before, {"key": text})
